/** Writes requests into the record: committed before any work of theirs exists (WF-1). */
import { sql } from 'kysely';
import { type Queries, recordset } from '../storage/database.js';
import type { JsonObject } from '../storage/json.js';
import { RequestRefusedError } from './request-error.js';

export interface NewRequest {
  /** UUIDv7. */
  readonly id: string;
  readonly workflow: string;
  readonly workflowVersion: number;
  readonly target: string | null;
  readonly subjectReference: string | null;
  readonly inventory: JsonObject;
  readonly inventoryDigest: string;
  readonly requestedBy: string;
  readonly reasonCode: string | null;
  readonly idempotencyKey: string | null;
  readonly approvalsRequired: number;
  readonly dueAt: Date | null;
  readonly sealed: readonly { readonly part: string; readonly keyId: string; readonly sealed: string }[];
}

/** What became of one new request. `existing` is the request that stood in the way, or that the key named before. */
export type SubmitResult =
  | { readonly kind: 'submitted'; readonly id: string }
  | { readonly kind: 'repeated'; readonly id: string; readonly existing: string }
  | { readonly kind: 'live'; readonly id: string; readonly existing: string };

/**
 * Submits a batch in a constant number of statements. One that repeats an idempotency key, or whose target or subject has a
 * live request, is left out and reported; the others are written. Call it inside a transaction.
 */
export async function submit(tx: Queries, requests: readonly NewRequest[]): Promise<readonly SubmitResult[]> {
  const written = await insertRequests(tx, requests);
  const accepted = requests.filter((request) => written.has(request.id));
  if (accepted.length > 0) await insertParts(tx, accepted);
  const refused = requests.filter((request) => !written.has(request.id));
  const standing = refused.length === 0 ? new Map<string, SubmitResult>() : await findStanding(tx, refused);
  return requests.map((request) => {
    if (written.has(request.id)) return { kind: 'submitted', id: request.id };
    const found = standing.get(request.id);
    // It was in the way a moment ago and has ended since: whoever submits again will succeed.
    if (found === undefined) throw conflictGone();
    return found;
  });
}

async function insertRequests(tx: Queries, requests: readonly NewRequest[]): Promise<ReadonlySet<string>> {
  const rows = requests.map((request) => ({
    id: request.id,
    workflow: request.workflow,
    workflow_version: request.workflowVersion,
    target: request.target,
    subject_reference: request.subjectReference,
    inventory_digest: request.inventoryDigest,
    requested_by: request.requestedBy,
    reason_code: request.reasonCode,
    idempotency_key: request.idempotencyKey,
    approvals_required: request.approvalsRequired,
    due_at: request.dueAt?.toISOString() ?? null,
  }));
  // ON CONFLICT waits for a submit of the same subject that has not committed yet: of two at once, one is told of the other.
  const { rows: inserted } = await sql<{ id: string }>`
    INSERT INTO ${tx.t.requests} (
      id, workflow, workflow_version, target, subject_reference, inventory_digest, status,
      requested_by, reason_code, idempotency_key, approvals_required, due_at)
    SELECT id, workflow, workflow_version, target, subject_reference, inventory_digest, 'submitted',
           requested_by, reason_code, idempotency_key, approvals_required, due_at
      FROM jsonb_to_recordset(${recordset(rows)}) AS x (
           id uuid, workflow text, workflow_version integer, target text, subject_reference text, inventory_digest text,
           requested_by text, reason_code text, idempotency_key text, approvals_required integer, due_at timestamptz)
     ORDER BY id
    ON CONFLICT DO NOTHING
    RETURNING id`.execute(tx.db);
  return new Set(inserted.map((row) => row.id));
}

async function insertParts(tx: Queries, requests: readonly NewRequest[]): Promise<void> {
  const inventories = requests.map(({ id, inventory, inventoryDigest }) => ({ id, inventory, inventoryDigest }));
  const sealed = requests.flatMap(({ id, sealed: parts }) => parts.map((part) => ({ id, ...part })));
  await sql`
    INSERT INTO ${tx.t.inventories} (request_id, revision, inventory, inventory_digest)
    SELECT x.id, 1, x.inventory, x."inventoryDigest"
      FROM jsonb_to_recordset(${recordset(inventories)}) AS x (id uuid, inventory jsonb, "inventoryDigest" text)`.execute(
    tx.db,
  );
  if (sealed.length > 0) {
    await sql`
      INSERT INTO ${tx.t.sealed} (request_id, part, key_id, sealed)
      SELECT x.id, x.part, x."keyId", x.sealed
        FROM jsonb_to_recordset(${recordset(sealed)}) AS x (id uuid, part text, "keyId" text, sealed text)`.execute(
      tx.db,
    );
  }
  await sql`
    INSERT INTO ${tx.t.events} (request_id, event, actor, detail)
    SELECT r.id, 'submitted', r.requested_by, jsonb_build_object('inventory_digest', r.inventory_digest)
      FROM ${tx.t.requests} r
      JOIN jsonb_to_recordset(${recordset(requests.map(({ id }) => ({ id })))}) AS x (id uuid) ON x.id = r.id`.execute(
    tx.db,
  );
}

async function findStanding(tx: Queries, requests: readonly NewRequest[]): Promise<Map<string, SubmitResult>> {
  const rows = requests.map((request) => ({
    id: request.id,
    workflow: request.workflow,
    target: request.target,
    subject_reference: request.subjectReference,
    idempotency_key: request.idempotencyKey,
  }));
  const { rows: found } = await sql<{ id: string; existing: string; repeated: boolean }>`
    SELECT x.id, r.id AS existing, r.idempotency_key IS NOT DISTINCT FROM x.idempotency_key
                               AND x.idempotency_key IS NOT NULL AS repeated
      FROM jsonb_to_recordset(${recordset(rows)}) AS x (
           id uuid, workflow text, target text, subject_reference text, idempotency_key text)
      JOIN ${tx.t.requests} r
        ON r.workflow = x.workflow
       AND (r.idempotency_key = x.idempotency_key
            OR r.status NOT IN ('completed', 'cancelled')
               AND (r.target = x.target OR r.subject_reference = x.subject_reference))
     ORDER BY repeated`.execute(tx.db);
  return new Map(
    found.map(({ id, existing, repeated }) => [id, { kind: repeated ? 'repeated' : 'live', id, existing }]),
  );
}

function conflictGone(): RequestRefusedError {
  return new RequestRefusedError(
    'LIVE_REQUEST_EXISTS',
    'A request for this subject ended while this one was submitted: submit again.',
  );
}
