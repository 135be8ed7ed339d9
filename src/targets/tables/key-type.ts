/**
 * How the text of an identifier becomes a value of a column's type: a text that is no value of the type, or another spelling of
 * one (`042` for 42), matches nothing (contract WF-14).
 */

export interface KeyType {
  /** The type to send parameters as, in SQL. */
  readonly sql: string;
  /** The value to send; null where the text stands for no value of the type. */
  readonly value: (identifier: string) => string | null;
}

/** Neither NUL nor half of a surrogate pair exists in a database; the driver would turn the latter into U+FFFD. */
export function text(identifier: string): string | null {
  return identifier.includes('\0') || !identifier.isWellFormed() ? null : identifier;
}

export function integer(bits: bigint): (identifier: string) => string | null {
  const limit = 2n ** bits;
  return (identifier) => {
    if (!/^(0|-?[1-9]\d{0,18})$/.test(identifier)) return null;
    const value = BigInt(identifier);
    return value >= -limit && value < limit ? identifier : null;
  };
}

export function decimal(identifier: string): string | null {
  return identifier.length <= 1_000 && /^(?!-0$)-?(0|[1-9]\d*)(\.\d*[1-9])?$/.test(identifier) ? identifier : null;
}

export function uuid(identifier: string): string | null {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(identifier) ? identifier : null;
}
