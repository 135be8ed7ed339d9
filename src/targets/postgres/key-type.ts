/**
 * Column types that an identifier can be compared with, and how its text becomes a value of the type. The comparison is the
 * column's own, so that its index serves it; a text that is no value of the type, or another spelling of one (`042` for 42),
 * matches nothing (contract WF-14).
 */
import type { Column } from '../../schema/catalogue.js';

export interface KeyType {
  /** The type to send parameters as, in SQL. */
  readonly sql: string;
  /** The value to send; null where the text stands for no value of the type. */
  readonly value: (identifier: string) => string | null;
}

/** The key type of a column, or null where identifiers cannot be compared with it. */
export function keyTypeOf(column: Column): KeyType | null {
  if (column.typeName === 'citext') return { sql: column.type, value: text };
  return column.typeSchema === 'pg_catalog' ? (types[column.typeName] ?? null) : null;
}

/** Names of the types that can be keys, for a message. */
export const keyTypeNames = 'smallint, integer, bigint, numeric, uuid, text, varchar, char or citext';

const types: Readonly<Record<string, KeyType>> = {
  int2: { sql: 'smallint', value: integer(15n) },
  int4: { sql: 'integer', value: integer(31n) },
  int8: { sql: 'bigint', value: integer(63n) },
  numeric: { sql: 'numeric', value: decimal },
  uuid: { sql: 'uuid', value: uuid },
  text: { sql: 'text', value: text },
  varchar: { sql: 'text', value: text },
  bpchar: { sql: 'bpchar', value: padded },
};

/** Neither NUL nor half of a surrogate pair exists in PostgreSQL; the driver would turn the latter into U+FFFD. */
function text(identifier: string): string | null {
  return identifier.includes('\0') || !identifier.isWellFormed() ? null : identifier;
}

/** char(n) ignores spaces at the end when it compares. */
function padded(identifier: string): string | null {
  return identifier.endsWith(' ') ? null : text(identifier);
}

function integer(bits: bigint): (identifier: string) => string | null {
  const limit = 2n ** bits;
  return (identifier) => {
    if (!/^(0|-?[1-9]\d{0,18})$/.test(identifier)) return null;
    const value = BigInt(identifier);
    return value >= -limit && value < limit ? identifier : null;
  };
}

function decimal(identifier: string): string | null {
  return identifier.length <= 1_000 && /^(?!-0$)-?(0|[1-9]\d*)(\.\d*[1-9])?$/.test(identifier) ? identifier : null;
}

function uuid(identifier: string): string | null {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(identifier) ? identifier : null;
}
