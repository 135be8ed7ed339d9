/**
 * The base of every error that Expunge throws on purpose.
 *
 * The class belongs to a subject and lives beside it; only this base and the list of codes are shared. A message is
 * one sentence that says what is wrong, where, and what to do. It never holds an identifier of a subject.
 */

/** How a command ends when this error reaches it (contract OP-7). */
export type ErrorOutcome =
  /** The work failed: exit 1. */
  | 'failed'
  /** Refused, nothing changed: exit 2. */
  | 'refused'
  /** Wrong usage of the program: exit 64. */
  | 'usage'
  /** The database cannot be reached: exit 69. */
  | 'unavailable'
  /** To be continued: exit 75. */
  | 'continue';

const brand = Symbol.for('expunge.error');

export abstract class ExpungeError extends Error {
  /** Stable, documented, upper-case name of this kind of error. */
  abstract readonly code: string;
  abstract readonly outcome: ErrorOutcome;
  /** Recognises the class across copies of the package. */
  readonly [brand] = true;

  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
  }
}

interface Branded {
  readonly code: string;
  readonly [brand]: true;
}

function isBranded(value: unknown): value is ExpungeError & Branded {
  return typeof value === 'object' && value !== null && (value as Partial<Branded>)[brand] === true;
}

/** Finds the Expunge error in `error` or in its chain of causes (at most 16 deep), or null. */
export function findExpungeError(error: unknown): ExpungeError | null {
  let candidate = error;
  for (let depth = 0; depth < 16 && typeof candidate === 'object' && candidate !== null; depth += 1) {
    if (isBranded(candidate)) return candidate;
    candidate = (candidate as { cause?: unknown }).cause;
  }
  return null;
}

/**
 * Whether `error`, or a cause of it, is an Expunge error (with this code, where one is given). Works across package
 * copies and wrapping by ORMs, which `instanceof` does not.
 */
export function isExpungeError(error: unknown, code?: string): boolean {
  const found = findExpungeError(error);
  return found !== null && (code === undefined || found.code === code);
}
