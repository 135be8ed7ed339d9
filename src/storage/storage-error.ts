import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';

/** The database does not answer, or hung up. Whether the last statement took effect is unknown. */
export class DatabaseUnavailableError extends ExpungeError {
  readonly code = 'DATABASE_UNAVAILABLE';
  readonly outcome: ErrorOutcome = 'unavailable';
}

/** The schema does not fit this program: not migrated, newer, changed or incomplete. */
export class SchemaVersionError extends ExpungeError {
  readonly code = 'SCHEMA_VERSION';
  readonly outcome: ErrorOutcome = 'refused';
}

/** The embedded database is in use by another process, or may not be used here. */
export class EmbeddedDatabaseError extends ExpungeError {
  readonly code = 'EMBEDDED_DATABASE';
  readonly outcome: ErrorOutcome = 'refused';
}

/** A statement was sent outside of the open transaction that it would wait for. A fault of the program. */
export class NestedQueryError extends ExpungeError {
  readonly code = 'NESTED_QUERY';
  readonly outcome: ErrorOutcome = 'failed';
}
