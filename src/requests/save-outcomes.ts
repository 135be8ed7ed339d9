/** Saves what handlers returned: transaction 1 of every stage (EX-6, EX-7, EX-17). */
import { sql } from 'kysely';
import type { Queries } from '../storage/database.js';
import type { JsonObject } from '../storage/json.js';
import { storableJson, storableText } from '../storage/storable.js';
import { owned } from './fence.js';
import type { Lease, RequestStatus, StageMetadata } from './request.js';

/** What is saved of one stage. */
export type SavedOutcome =
  | {
      readonly kind: 'completed';
      readonly result: JsonObject;
      /** Where given, `result.until` is set to this many seconds from the database's now. */
      readonly delaySeconds?: number;
    }
  | { readonly kind: 'postponed'; readonly why: string; readonly delaySeconds: number }
  | { readonly kind: 'failed'; readonly error: string; readonly retryable: boolean }
  | {
      readonly kind: 'revised';
      readonly why: string;
      readonly inventory: JsonObject;
      readonly inventoryDigest: string;
    };

export interface OutcomeToSave {
  readonly lease: Lease;
  readonly stageId: string;
  readonly outcome: SavedOutcome;
}

export interface SaveResult {
  /** The parent's status afterwards. */
  readonly status: RequestStatus;
  /** Whether the request waits now and ownership was given back; otherwise its transition is next. */
  readonly released: boolean;
  readonly next_attempt_at: Date | null;
  readonly last_error: string | null;
  /** The order that stood when it was saved. */
  readonly standing_order: 'hold' | 'cancel' | null;
  /** The database's clock, which is the stage's finish time where it has finished. */
  readonly at: Date;
  /** The stage's, as it was saved. */
  readonly metadata_json: StageMetadata;
}

/** What is postponed by less would be claimed again at once, over and over. */
export const SHORTEST_DELAY_SECONDS = 1;
/** The first retry comes after this many seconds; each further one doubles it. */
export const FIRST_RETRY_SECONDS = 30;
export const LONGEST_RETRY_SECONDS = 3600;
/** This many failures in a row block a request, or a target of it. */
export const FAILURES_THAT_BLOCK = 8;

/**
 * Saves many outcomes in one statement. A request that is missing from the answer was written by a stale owner: refused,
 * unchanged. While a cancel stands, whatever a stage had to say is saved as `{ cancelled: true }`: nothing of a cancelled
 * request passes its point of no return (OP-9). While a hold stands, a request that would wait is held instead. Ownership of
 * a request that waits is given back by the same statement, so that no crash leaves a lease in the way of its next attempt.
 */
export async function saveOutcomes(
  queries: Queries,
  outcomes: readonly OutcomeToSave[],
): Promise<ReadonlyMap<string, SaveResult>> {
  const { db, t } = queries;
  const rows = outcomes.map(({ lease, stageId, outcome }) => ({
    lease,
    values: { stage_id: stageId, kind: outcome.kind, ...columnsOf(outcome) },
  }));
  const columns = sql`stage_id uuid, kind text, result jsonb, message text, retryable boolean,
                      delay double precision, inventory jsonb, digest text`;
  const { rows: saved } = await sql<SaveResult & { request_id: string }>`
    WITH ${owned(t, rows, columns)},
    verdict AS MATERIALIZED (
      SELECT request_id, stage_id, result, message, inventory, digest, owner, at, standing_order, request_status,
             retry_count + 1 AS failures,
             CASE WHEN standing_order = 'cancel' THEN 'cancelled' ELSE kind END AS kind,
             retryable AND retry_count + 1 < ${FAILURES_THAT_BLOCK}::integer AS goes_on,
             delay, at + make_interval(secs => delay) AS until,
             -- Spread, so that what failed together does not come back together; the first one is exact (EX-17).
             at + make_interval(secs => least(${LONGEST_RETRY_SECONDS}::integer,
                    ${FIRST_RETRY_SECONDS}::integer * power(2, retry_count)
                    * CASE WHEN retry_count = 0 THEN 1 ELSE 0.9 + 0.2 * random() END)) AS retry_at
        FROM owned
    ), stage_saved AS (
      UPDATE ${t.stages} s
         SET status = CASE v.kind WHEN 'completed' THEN 'completed' WHEN 'cancelled' THEN 'completed'
                                  WHEN 'failed' THEN 'failed' ELSE 'pending' END,
             finished_at = CASE WHEN v.kind IN ('completed', 'cancelled', 'failed') THEN v.at END,
             last_error = CASE WHEN v.kind = 'failed' THEN v.message ELSE s.last_error END,
             metadata_json = CASE v.kind
               WHEN 'cancelled' THEN s.metadata_json || jsonb_build_object('result', jsonb_build_object('cancelled', true))
               WHEN 'completed' THEN s.metadata_json || jsonb_build_object('result', CASE
                 WHEN v.delay IS NULL THEN v.result ELSE v.result || jsonb_build_object('until', v.until) END)
               ELSE s.metadata_json END
        FROM verdict v
       WHERE s.id = v.stage_id
         AND s.request_id = v.request_id
         AND s.is_current
         AND s.status = 'running'
      RETURNING v.*, s.metadata_json
    ), revised AS (
      INSERT INTO ${t.inventories} (request_id, revision, inventory, inventory_digest)
      SELECT v.request_id, 1 + (SELECT max(revision) FROM ${t.inventories} i WHERE i.request_id = v.request_id),
             v.inventory, v.digest
        FROM stage_saved v WHERE v.kind = 'revised'
    ), parent AS MATERIALIZED (
      SELECT v.*, CASE v.kind WHEN 'postponed' THEN 'waiting' WHEN 'revised' THEN 'awaiting_approval'
                              WHEN 'failed' THEN CASE WHEN v.goes_on THEN 'retry_wait' ELSE 'blocked' END
                              ELSE v.request_status END AS next_status
        FROM stage_saved v
    ), parent_saved AS (
      UPDATE ${t.requests} r
         SET status = CASE WHEN v.standing_order = 'hold' THEN 'held' ELSE v.next_status END,
             held_status = CASE WHEN v.standing_order = 'hold' THEN v.next_status END,
             inventory_digest = coalesce(v.digest, r.inventory_digest),
             retry_count = CASE WHEN v.kind = 'failed' THEN v.failures ELSE r.retry_count END,
             next_attempt_at = CASE v.kind WHEN 'postponed' THEN v.until
                                           WHEN 'failed' THEN CASE WHEN v.goes_on THEN v.retry_at END END,
             last_error = CASE WHEN v.kind = 'failed' THEN v.message ELSE r.last_error END,
             blocked_at = CASE WHEN v.next_status = 'blocked' THEN v.at END,
             blocked_reason = CASE WHEN v.next_status = 'blocked' THEN v.message END,
             lease_owner = NULL,
             lease_expires_at = NULL
        FROM parent v
       WHERE r.id = v.request_id AND v.kind NOT IN ('completed', 'cancelled')
      RETURNING r.id, r.status, r.next_attempt_at, r.last_error
    ), logged AS (
      INSERT INTO ${t.events} (request_id, event, actor, detail)
      SELECT v.request_id, CASE WHEN v.next_status = 'blocked' THEN 'blocked' ELSE v.kind END, v.owner,
             jsonb_strip_nulls(jsonb_build_object(
               'stage_id', v.stage_id, 'why', v.message, 'failures', CASE WHEN v.kind = 'failed' THEN v.failures END,
               'inventory_digest', v.digest))
        FROM parent v WHERE v.kind <> 'completed'
    )
    SELECT v.request_id, coalesce(p.status, v.request_status) AS status, p.id IS NOT NULL AS released,
           p.next_attempt_at, p.last_error, v.standing_order, v.at, v.metadata_json
      FROM parent v LEFT JOIN parent_saved p ON p.id = v.request_id`.execute(db);
  return new Map(saved.map(({ request_id, ...result }) => [request_id, result]));
}

function columnsOf(outcome: SavedOutcome) {
  switch (outcome.kind) {
    case 'completed':
      return {
        result: storableJson(outcome.result),
        delay: outcome.delaySeconds === undefined ? null : usableDelay(outcome.delaySeconds),
      };
    case 'postponed':
      return { message: storableText(outcome.why), delay: usableDelay(outcome.delaySeconds) };
    case 'failed':
      return { message: storableText(outcome.error), retryable: outcome.retryable };
    case 'revised':
      return {
        message: storableText(outcome.why),
        inventory: storableJson(outcome.inventory),
        digest: outcome.inventoryDigest,
      };
  }
}

/** Infinity and NaN are no JSON, and a request that waits until never would be claimed at once. */
export function usableDelay(seconds: number): number {
  return Number.isFinite(seconds) ? Math.max(SHORTEST_DELAY_SECONDS, seconds) : LONGEST_RETRY_SECONDS;
}
