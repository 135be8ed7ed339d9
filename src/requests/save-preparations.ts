/** Saves what came of counting requests that were submitted without an inventory (WF-1): fenced, many in one statement. */
import { sql } from 'kysely';
import type { Queries } from '../storage/database.js';
import type { JsonObject } from '../storage/json.js';
import { storableJson, storableText } from '../storage/storable.js';
import { owned } from './fence.js';
import type { Lease, RequestStatus } from './request.js';
import { FAILURES_THAT_BLOCK, FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS, usableDelay } from './save-outcomes.js';

/** What came of counting one request. */
export type Preparation =
  | { readonly kind: 'counted'; readonly inventory: JsonObject; readonly inventoryDigest: string }
  | { readonly kind: 'postponed'; readonly why: string; readonly delaySeconds: number }
  | { readonly kind: 'failed'; readonly error: string; readonly retryable: boolean };

export interface PreparationToSave {
  readonly lease: Lease;
  readonly preparation: Preparation;
}

export interface SavedPreparation {
  readonly status: RequestStatus;
  readonly next_attempt_at: Date | null;
  /** A cancel stands: nothing was saved, ownership stays, and the transition acts on it. */
  readonly cancelling: boolean;
}

/**
 * Saves revision 1 of the inventories with their digests, or what hindered them, and gives ownership back. A request that is
 * missing from the answer was written by a stale owner: refused, unchanged.
 */
export async function savePreparations(
  queries: Queries,
  preparations: readonly PreparationToSave[],
): Promise<ReadonlyMap<string, SavedPreparation>> {
  const { db, t } = queries;
  const rows = preparations.map(({ lease, preparation }) => ({
    lease,
    values: { kind: preparation.kind, ...columnsOf(preparation) },
  }));
  const columns = sql`kind text, message text, retryable boolean, delay double precision, inventory jsonb, digest text`;
  const { rows: saved } = await sql<SavedPreparation & { request_id: string }>`
    WITH ${owned(t, rows, columns)},
    verdict AS MATERIALIZED (
      SELECT o.*, CASE WHEN kind <> 'failed' OR retryable AND retry_count + 1 < ${FAILURES_THAT_BLOCK}::integer
                       THEN 'submitted' ELSE 'blocked' END AS next_status,
             CASE kind WHEN 'postponed' THEN at + make_interval(secs => delay)
                       WHEN 'failed' THEN at + make_interval(secs => least(${LONGEST_RETRY_SECONDS}::integer,
                                                  ${FIRST_RETRY_SECONDS}::integer * power(2, retry_count))) END AS until
        FROM owned o
       WHERE standing_order IS DISTINCT FROM 'cancel'
    ), counted AS (
      INSERT INTO ${t.inventories} (request_id, revision, inventory, inventory_digest)
      SELECT request_id, 1, inventory, digest FROM verdict WHERE kind = 'counted'
    ), saved AS (
      UPDATE ${t.requests} r
         SET inventory_digest = v.digest,
             status = CASE WHEN v.standing_order = 'hold' THEN 'held' ELSE v.next_status END,
             held_status = CASE WHEN v.standing_order = 'hold' THEN v.next_status END,
             retry_count = CASE v.kind WHEN 'failed' THEN v.retry_count + 1 WHEN 'counted' THEN 0 ELSE v.retry_count END,
             next_attempt_at = CASE WHEN v.next_status = 'submitted' THEN v.until END,
             last_error = v.message,
             blocked_at = CASE WHEN v.next_status = 'blocked' THEN v.at END,
             blocked_reason = CASE WHEN v.next_status = 'blocked' THEN v.message END,
             lease_owner = NULL,
             lease_expires_at = NULL
        FROM verdict v
       WHERE r.id = v.request_id
      RETURNING r.id, r.status, r.next_attempt_at
    ), logged AS (
      INSERT INTO ${t.events} (request_id, event, actor, detail)
      SELECT request_id, CASE WHEN next_status = 'blocked' THEN 'blocked' ELSE kind END, owner,
             jsonb_strip_nulls(jsonb_build_object('why', message, 'inventory_digest', digest))
        FROM verdict
    )
    SELECT o.request_id, coalesce(s.status, o.request_status) AS status, s.next_attempt_at, s.id IS NULL AS cancelling
      FROM owned o LEFT JOIN saved s ON s.id = o.request_id`.execute(db);
  return new Map(saved.map(({ request_id, ...result }) => [request_id, result]));
}

function columnsOf(preparation: Preparation) {
  switch (preparation.kind) {
    case 'counted':
      return { inventory: storableJson(preparation.inventory), digest: preparation.inventoryDigest };
    case 'postponed':
      return { message: storableText(preparation.why), delay: usableDelay(preparation.delaySeconds) };
    case 'failed':
      return { message: storableText(preparation.error), retryable: preparation.retryable };
  }
}
