/** The public face of Expunge: configuration, and the client that submits, approves and runs deletions. */
export { defineConfig } from './config/define-config.js';
export { loadConfig } from './config/load-config.js';
export { Client, type ClientOptions, createClient } from './client/client.js';
export type { BatchLine, BatchSource } from './client/batch-source.js';
export type { Batches, ShownBatch } from './client/batches.js';
export type { BatchProgress, SubmitManyOptions } from './client/submit-batch.js';
export type { BatchApprovalResult } from './requests/approve-batch.js';
export type { Identifiers } from './client/deletable-subject.js';
export type { RevisedErasure, SubmitOptions, SubmittedErasure } from './client/erasures.js';
export type { StandingApprovals, StandingProposalInput } from './client/standing-approvals.js';
export type { StandingApproval } from './requests/read-standing-approvals.js';
export type { RecordedErasure, SubmitLaterOptions } from './client/submit-later.js';
export type { BorrowedTransaction, KyselyTransaction, SqlTransaction } from './storage/borrowed-transaction.js';
export type { DeletionRequest, DeletionTarget, TargetStatus } from './client/public-status.js';
export { ExpungeError, type ErrorOutcome, isExpungeError } from './observe/expunge-error.js';
export { DELETION_TOMBSTONE_TTL, type DeletionStatus, type StatusAnswer } from './registry/registry.js';
export {
  TargetBlockedError,
  TargetDeclarationError,
  TargetError,
  type TargetErrorDetail,
  TargetFailedError,
  TargetUnavailableError,
} from './targets/target-error.js';
export type {
  Answers,
  Cleanup,
  EraseOptions,
  EraseProgress,
  EraseSubject,
  LocatorQuery,
  LocatorSource,
  Place,
  PlaceAction,
  PlaceCount,
  SubjectBatch,
  SubjectRef,
  Target,
  TargetDeclaration,
  TargetSubject,
} from './targets/target.js';
export type { JsonObject, JsonValue } from './storage/json.js';
