/** The catalogue of what can be logged: the events, and the fields that may stand beside them. */
import type { PrintableKind } from './printable.js';

/**
 * Every event that is logged. A name says what happened, in the past tense, and stays the same across releases: alerts
 * are built on it. Add a line for a new one.
 */
export const logEvents = [
  // Requests and their workers
  'request_submitted',
  'request_approved',
  'request_claimed',
  'request_released',
  'request_completed',
  'request_cancelled',
  'request_blocked',
  'request_refused',
  'request_waiting',
  'workflow_unregistered',
  'batch_bisected',
  'row_isolated',
  'worker_started',
  'worker_stopping',
  'worker_stopped',
  'worker_grace_over',
  'dispatch_failed',
  // Leases
  'lease_taken_over',
  'lease_renewal_failed',
  'lease_lost',
  'stale_write_refused',
  // Stages
  'stage_started',
  'stage_completed',
  'stage_postponed',
  'stage_failed',
  'stage_revised',
  'handler_ignored_signal',
  // Targets
  'target_unavailable',
  'target_failed',
  'target_blocked',
  'target_cleanup_left',
  'resurrection_found',
  // Registry and fences
  'registry_read_failed',
  'registry_mark_failed',
  'fence_unavailable',
  'tombstones_expired',
  // Storage and maintenance
  'database_unavailable',
  'migration_applied',
  'embedded_leases_ended',
  'maintenance_failed',
  'hold_ended',
  'receipt_signed',
  'checkpoint_signed',
] as const;

export type LogEvent = (typeof logEvents)[number];

/** What each field may hold; the log drops a value of another kind. An `error` is reduced by `describeError`. */
export const logFields = {
  requestId: 'uuid',
  batchId: 'uuid',
  stageId: 'uuid',
  receiptId: 'uuid',
  /** An opaque internal id, such as an actor's: never an address, a name or a number that people know. */
  opaqueId: 'name',
  workflow: 'name',
  workflowVersion: 'number',
  stage: 'name',
  status: 'code',
  target: 'name',
  place: 'name',
  table: 'name',
  constraint: 'name',
  sqlstate: 'sqlstate',
  /** One of our own error codes. */
  code: 'code',
  /** One of our own reason codes: why something waits, was refused, or is left. */
  reason: 'code',
  executorId: 'person',
  operatorId: 'person',
  service: 'name',
  operation: 'name',
  leaseGeneration: 'number',
  attempt: 'number',
  count: 'number',
  rows: 'number',
  durationMs: 'number',
  until: 'time',
  pid: 'number',
  exitCode: 'number',
  signal: 'code',
  retryable: 'flag',
} as const satisfies Readonly<Record<string, PrintableKind>>;

type ValueOf<K extends PrintableKind> = K extends 'number' ? number : K extends 'flag' ? boolean : string;

/** The fields of one log line. Anything else is a compile error, and is dropped at run time. */
export type LogFields = {
  readonly [F in keyof typeof logFields]?: ValueOf<(typeof logFields)[F]> | undefined;
} & { readonly error?: unknown };
