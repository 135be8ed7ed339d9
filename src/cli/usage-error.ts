import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';

/** The program was called wrongly. The message never repeats a value that was given: it may be somebody's. */
export class UsageError extends ExpungeError {
  readonly code = 'USAGE';
  readonly outcome: ErrorOutcome = 'usage';
}
