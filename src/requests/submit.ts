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
  /** Null where the request is refused: it counts nothing. */
  readonly inventory: JsonObject | null;
  readonly inventoryDigest: string | null;
  readonly requestedBy: string;
  readonly reasonCode: string | null;
  readonly idempotencyKey: string | null;
  readonly approvalsRequired: number;
  readonly dueAt: Date | null;
  /** Where it stands in its batch; absent where it is submitted alone. */
  readonly batch?: { readonly id: string; readonly position: number };
  /**
   * Why it is refused, as code and sentence; absent where it waits for approval. A member of a batch that is refused is
   * written all the same: as `blocked`, so that it is not forgotten, and without anything that could ever be approved.
   */
  readonly refusal?: string;
  readonly sealed: readonly { readonly part: string; readonly keyId: string; readonly sealed: string }[];
}

/** What became of one new request. `existing` is the request that stood in the way, or that the key named before. */
export type SubmitResult =
  | { readonly kind: 'submitted'; readonly id: string }
  | { readonly kind: 'repeated'; readonly id: string; readonly existing: string }
  | { readonly kind: 'live'; readonly id: string; readonly existing: string };

/** How often a request is submitted again because what stood in its way ended before it could be named. */
const ROUNDS = 3;

/**
 * Submits a batch in a constant number of statements. One that repeats an idempotency key, or whose target or subject has a
 * live request, is left out and reported; the others are written. Call it inside a transaction.
 * @throws RequestRefusedError LIVE_REQUEST_EXISTS, without a name, where others came and went all the time.
 */
export async function submit(tx: Queries, requests: readonly NewRequest[]): Promise<readonly SubmitResult[]> {
  const results = new Map<string, SubmitResult>();
  let open = requests;
  for (let round = 0; round < ROUNDS && open.length > 0; round += 1) {
    const written = await insertRequests(tx, open);
    const accepted = open.filter(({ id }) => written.has(id));
    if (accepted.length > 0) await insertParts(tx, accepted);
    for (const { id } of accepted) results.set(id, { kind: 'submitted', id });
    const refused = open.filter(({ id }) => !written.has(id));
    if (refused.length > 0) for (const found of await findStanding(tx, refused)) results.set(found.id, found);
    // The others were in somebody's way a moment ago, who has ended since.
    open = refused.filter(({ id }) => !results.has(id));
  }
  return requests.map(({ id }) => {
    const result = results.get(id);
    if (result === undefined) throw conflictGone();
    return result;
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
    batch_id: request.batch?.id ?? null,
    batch_position: request.batch?.position ?? null,
    refusal: request.refusal ?? null,
  }));
  // ON CONFLICT waits for a submit of the same subject that has not committed yet: of two at once, one is told of the other.
  // Two batches wait for each other in the order of what they conflict in, not of their ids: otherwise they deadlock.
  const { rows: inserted } = await sql<{ id: string }>`
    INSERT INTO ${tx.t.requests} (
      id, workflow, workflow_version, target, subject_reference, inventory_digest, status,
      requested_by, reason_code, idempotency_key, approvals_required, due_at,
      batch_id, batch_position, blocked_at, blocked_reason)
    SELECT id, workflow, workflow_version, target, subject_reference, inventory_digest,
           CASE WHEN refusal IS NULL THEN 'submitted' ELSE 'blocked' END,
           requested_by, reason_code, idempotency_key, approvals_required, due_at,
           batch_id, batch_position, CASE WHEN refusal IS NOT NULL THEN clock_timestamp() END, refusal
      FROM jsonb_to_recordset(${recordset(rows)}) AS x (
           id uuid, workflow text, workflow_version integer, target text, subject_reference text, inventory_digest text,
           requested_by text, reason_code text, idempotency_key text, approvals_required integer, due_at timestamptz,
           batch_id uuid, batch_position integer, refusal text)
     ORDER BY workflow, target, subject_reference, idempotency_key, id
    ON CONFLICT DO NOTHING
    RETURNING id`.execute(tx.db);
  return new Set(inserted.map((row) => row.id));
}

async function insertParts(tx: Queries, requests: readonly NewRequest[]): Promise<void> {
  const inventories = requests
    .filter(({ inventory }) => inventory !== null)
    .map(({ id, inventory, inventoryDigest }) => ({ id, inventory, inventoryDigest }));
  const sealed = requests.flatMap(({ id, sealed: parts }) => parts.map((part) => ({ id, ...part })));
  if (inventories.length > 0) {
    await sql`
      INSERT INTO ${tx.t.inventories} (request_id, revision, inventory, inventory_digest)
      SELECT x.id, 1, x.inventory, x."inventoryDigest"
        FROM jsonb_to_recordset(${recordset(inventories)}) AS x (id uuid, inventory jsonb, "inventoryDigest" text)`.execute(
      tx.db,
    );
  }
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
    SELECT r.id, r.status, r.requested_by,
           jsonb_strip_nulls(jsonb_build_object(
             'inventory_digest', r.inventory_digest, 'batch_id', r.batch_id, 'why', r.blocked_reason))
      FROM ${tx.t.requests} r
      JOIN jsonb_to_recordset(${recordset(requests.map(({ id }) => ({ id })))}) AS x (id uuid) ON x.id = r.id`.execute(
    tx.db,
  );
}

/** A look-up by each of the unique indexes: joined by OR, all requests would be read. */
async function findStanding(tx: Queries, requests: readonly NewRequest[]): Promise<readonly SubmitResult[]> {
  const rows = requests.map((request) => ({
    id: request.id,
    workflow: request.workflow,
    target: request.target,
    subject_reference: request.subjectReference,
    idempotency_key: request.idempotencyKey,
  }));
  const { rows: found } = await sql<{ id: string; existing: string; repeated: boolean }>`
    WITH input AS MATERIALIZED (
      SELECT * FROM jsonb_to_recordset(${recordset(rows)}) AS x (
             id uuid, workflow text, target text, subject_reference text, idempotency_key text)
    ), standing AS (
      SELECT x.id, r.id AS existing, true AS repeated
        FROM input x JOIN ${tx.t.requests} r ON r.workflow = x.workflow AND r.idempotency_key = x.idempotency_key
      UNION ALL
      SELECT x.id, r.id, false
        FROM input x JOIN ${tx.t.requests} r ON r.workflow = x.workflow AND r.target = x.target
       WHERE r.status NOT IN ('completed', 'cancelled')
      UNION ALL
      SELECT x.id, r.id, false
        FROM input x JOIN ${tx.t.requests} r ON r.workflow = x.workflow AND r.subject_reference = x.subject_reference
       WHERE r.status NOT IN ('completed', 'cancelled')
    )
    SELECT DISTINCT ON (id) id, existing, repeated FROM standing ORDER BY id, repeated DESC`.execute(tx.db);
  return found.map(({ id, existing, repeated }) => ({ kind: repeated ? 'repeated' : 'live', id, existing }));
}

function conflictGone(): RequestRefusedError {
  return new RequestRefusedError(
    'LIVE_REQUEST_EXISTS',
    'A request for this subject ended while this one was submitted: submit again.',
  );
}
