/** A deletion request as it stands in the database. Column names are fixed: operators' own SQL depends on them. */
import type { JsonObject, JsonValue } from '../storage/json.js';

export const REQUEST_STATUSES = [
  'submitted',
  'approved',
  'running',
  'waiting',
  'retry_wait',
  'awaiting_approval',
  'held',
  'blocked',
  'completed',
  'cancelled',
] as const;

export type RequestStatus = (typeof REQUEST_STATUSES)[number];

export interface RequestRow {
  readonly id: string;
  readonly workflow: string;
  readonly workflow_version: number;
  readonly target: string | null;
  readonly subject_reference: string | null;
  readonly inventory_digest: string | null;
  readonly status: RequestStatus;
  readonly requested_by: string;
  readonly reason_code: string | null;
  readonly idempotency_key: string | null;
  readonly approvals_required: number;
  readonly created_at: Date;
  readonly due_at: Date | null;
  readonly lease_owner: string | null;
  readonly lease_generation: number;
  readonly lease_expires_at: Date | null;
  readonly heartbeat_at: Date | null;
  readonly retry_count: number;
  readonly next_attempt_at: Date | null;
  readonly last_error: string | null;
  readonly blocked_at: Date | null;
  readonly blocked_reason: string | null;
  readonly completed_at: Date | null;
  readonly standing_order: 'hold' | 'cancel' | null;
  readonly held_status: RequestStatus | null;
  /** The batch that it was submitted in; null where it was submitted alone. */
  readonly batch_id: string | null;
  /** Its line in what the batch was submitted from. */
  readonly batch_position: number | null;
}

/** What tells one request's digests from another's. */
export type RequestIdentity = Pick<RequestRow, 'id' | 'workflow' | 'workflow_version' | 'target'>;

/** One revision of what will be deleted where. Append-only. */
export interface InventoryRow {
  readonly request_id: string;
  readonly revision: number;
  readonly inventory: JsonObject;
  readonly inventory_digest: string;
}

export interface ApprovalRow {
  readonly id: string;
  readonly request_id: string;
  readonly inventory_digest: string;
  readonly approved_by: string;
  readonly approved_at: Date;
}

export interface OrderRow {
  readonly id: string;
  readonly request_id: string;
  readonly kind: 'hold' | 'cancel' | 'unblock';
  readonly ordered_by: string;
  readonly reason: string | null;
  readonly ordered_at: Date;
  readonly until: Date | null;
  readonly ended_at: Date | null;
}

export interface StageMetadata {
  readonly inputs: JsonObject;
  /** What is about to be done; saved before any effect that cannot be repeated safely (EX-24). */
  readonly intent?: JsonValue;
  /** How far a long stage has come. */
  readonly cursor?: JsonValue;
  readonly result?: JsonObject;
  /** The decision that followed; present on every stage but the current one. */
  readonly transition?: JsonObject;
  /** The chain that history is rebuilt by (EX-9); null for the first stage. */
  readonly previous_stage_id: string | null;
}

export interface StageRow {
  readonly id: string;
  readonly request_id: string;
  readonly stage: string;
  readonly target_community_id: string | null;
  readonly status: 'pending' | 'running' | 'completed' | 'failed';
  readonly is_current: boolean;
  readonly started_at: Date | null;
  readonly finished_at: Date | null;
  readonly attempts: number;
  readonly metadata_json: StageMetadata;
  readonly last_error: string | null;
}

/** Ownership of one request, as proven by every write: who, and under which fencing token. */
export interface Lease {
  readonly requestId: string;
  readonly owner: string;
  readonly generation: number;
}

/** Seconds that a lease lasts, by the database's clock (EX-14). */
export const LEASE_SECONDS = 60;
