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

/** A statement of a transaction had failed, its error was ignored, and the commit came to nothing. A fault of the program. */
export class TransactionAbortedError extends ExpungeError {
  readonly code = 'TRANSACTION_ABORTED';
  readonly outcome: ErrorOutcome = 'failed';

  constructor() {
    super(
      'The database rolled a transaction back instead of committing it, because a statement in it had failed: let that error through.',
    );
  }
}

/** The address of the database cannot be used. The message does not repeat it, since it may hold a password. */
export class DatabaseUrlError extends ExpungeError {
  readonly code = 'DATABASE_URL';
  readonly outcome: ErrorOutcome = 'usage';

  constructor() {
    super(
      'EXPUNGE_DATABASE_URL is no address of a PostgreSQL database: give one like postgres://user@host:5432/database, with special characters of a password percent-encoded.',
    );
  }
}

/** A bigint of the database is too large for a number. None that Expunge writes is. */
export class BigintRangeError extends ExpungeError {
  readonly code = 'BIGINT_RANGE';
  readonly outcome: ErrorOutcome = 'failed';

  constructor() {
    super('A bigint of the database lies beyond 2^53 and was not rounded: find out what wrote it.');
  }
}

/** What was given as a transaction is none: a pool, a database, or a connection that nobody told to begin. */
export class TransactionRequiredError extends ExpungeError {
  readonly code = 'TRANSACTION_REQUIRED';
  readonly outcome: ErrorOutcome = 'refused';

  constructor() {
    super(
      'The tx given is no open transaction: begin one and give its client, as with BEGIN on a PoolClient, or transaction().execute of Kysely.',
    );
  }
}
