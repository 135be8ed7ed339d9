import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';

/** Codes, names and numbers only, all from an allow-list: never a value that a driver printed (contract WF-2). */
export interface TargetErrorDetail {
  readonly target: string;
  readonly place?: string;
  /** SQLSTATE, errno name or HTTP status. */
  readonly cause?: string;
  readonly constraint?: string;
}

/** A fault of one target. Its class says what follows; nothing is ever decided by matching text. */
export abstract class TargetError extends ExpungeError {
  readonly detail: TargetErrorDetail;
  constructor(message: string, detail: TargetErrorDetail, options?: { cause?: unknown }) {
    super(message, options);
    this.detail = detail;
  }
}

/** Unreachable, throttled or locked: waiting is not failing, and is not counted. */
export class TargetUnavailableError extends TargetError {
  readonly code = 'TARGET_UNAVAILABLE';
  readonly outcome: ErrorOutcome = 'continue';
}

/** The store answered and refused, or did not do what it said. Tried again, and blocked after eight times in a row. */
export class TargetFailedError extends TargetError {
  readonly code = 'TARGET_FAILED';
  readonly outcome: ErrorOutcome = 'failed';
}

/** Trying again cannot help: a person has to look. Blocks this target at once. */
export class TargetBlockedError extends TargetError {
  readonly code = 'TARGET_BLOCKED';
  readonly outcome: ErrorOutcome = 'failed';
}

/** The declaration does not fit the store: refused at submit, blocking later. */
export class TargetDeclarationError extends TargetError {
  readonly code = 'TARGET_DECLARATION';
  readonly outcome: ErrorOutcome = 'refused';
}
