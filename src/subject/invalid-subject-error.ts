import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';

/**
 * A subject was given in a way that cannot name anybody: an identifier that is missing, unknown, empty or unreadable.
 * The message may hold the declared name of an identifier, and never its value (contract WF-2, REG-5).
 */
export class InvalidSubjectError extends ExpungeError {
  readonly code = 'INVALID_SUBJECT';
  readonly outcome: ErrorOutcome = 'refused';
}
