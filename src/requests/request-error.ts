import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';

/** Every reason for which the record refuses an operation. Nothing has changed when one of these is thrown. */
export type RefusalCode =
  | 'UNKNOWN_REQUEST'
  | 'LIVE_REQUEST_EXISTS'
  | 'DIGEST_MISMATCH'
  | 'APPROVER_IS_REQUESTER'
  | 'ALREADY_APPROVED_BY'
  | 'NOT_AWAITING_APPROVAL'
  | 'WRONG_STATUS'
  | 'NOT_DUE'
  | 'LEASED'
  | 'POINT_OF_NO_RETURN'
  | 'ORDER_STANDS'
  | 'INVALID_OPERATOR'
  | 'INVALID_ORDER'
  | 'IDEMPOTENCY_CONFLICT'
  | 'UNREGISTERED_VERSION'
  | 'UNKNOWN_STAGE'
  | 'UNKNOWN_COMMUNITY'
  | 'WRONG_WORKFLOW'
  | 'PLAN_CHANGED'
  | 'BOUNDS_EXCEEDED'
  | 'BATCH_OPEN'
  | 'NEVER_APPROVABLE';

export class RequestRefusedError extends ExpungeError {
  readonly outcome: ErrorOutcome = 'refused';
  readonly code: RefusalCode;
  readonly requestId: string | null;

  constructor(code: RefusalCode, message: string, requestId: string | null = null, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
    this.requestId = requestId;
  }
}

export function unknownRequest(id: string): RequestRefusedError {
  return new RequestRefusedError('UNKNOWN_REQUEST', `There is no request ${id}: expunge list shows those that exist.`);
}

/** A member of a batch that was refused when it was submitted: nobody has approved or could approve anything of it (WF-8). */
export function neverApprovable(id: string): RequestRefusedError {
  return new RequestRefusedError(
    'NEVER_APPROVABLE',
    `Request ${id} was refused when it was submitted, and cannot go on: cancel it, and submit its subject anew when the reason is gone.`,
    id,
  );
}

/** The saved rows contradict each other or the rules: a person has to look. No progress is invented (EX-11). */
export class RecordIntegrityError extends ExpungeError {
  readonly code = 'RECORD_INTEGRITY';
  readonly outcome: ErrorOutcome = 'failed';
  readonly requestId: string;

  constructor(message: string, requestId: string, options?: { cause?: unknown }) {
    super(message, options);
    this.requestId = requestId;
  }
}

/** The lease has expired or belongs to somebody else: the write was refused and changed nothing (EX-15). */
export class LeaseLostError extends ExpungeError {
  readonly code = 'LEASE_LOST';
  readonly outcome: ErrorOutcome = 'failed';
  readonly requestId: string;

  constructor(requestId: string) {
    super(`The lease on request ${requestId} was lost to another worker or to time: its new owner goes on with it.`);
    this.requestId = requestId;
  }
}
