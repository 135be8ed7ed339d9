/** Writes moves: the whole of a transition, or what follows a decision that was made without a lock (EX-8). */
import { sql } from 'kysely';
import { type Queries, recordset } from '../storage/database.js';
import type { JsonObject } from '../storage/json.js';
import { storableText } from '../storage/storable.js';
import { changesRequest, goesOn, type Move, transitionOf } from './move.js';
import type { Lease } from './request.js';

export interface MoveToApply {
  readonly move: Move;
  /**
   * Where given, the request was not locked when its move was decided: it is locked now, and moved only if the lease is valid,
   * no order stands, and the inventory is still the one that the decision knew.
   */
  readonly lease?: Lease;
}

/**
 * One statement. The INSERT reads from the UPDATE's RETURNING: otherwise the successor would meet the old row in the index
 * that allows one current stage (EX-8). It inserts only where the old row was still current and completed.
 * Returns the requests that were moved.
 */
export async function applyMoves(queries: Queries, moves: readonly MoveToApply[]): Promise<ReadonlySet<string>> {
  if (moves.length === 0) return new Set();
  const { db, t } = queries;
  const { rows } = await sql<{ request_id: string }>`
    WITH input AS MATERIALIZED (
      SELECT * FROM jsonb_to_recordset(${recordset(moves.map(columnsOf))}) AS x (
             request_id uuid, kind text, from_stage uuid, closes_unfinished boolean, transition jsonb,
             stage_id uuid, stage text, place text, stage_status text, attempts integer, metadata jsonb,
             status text, held boolean, goes_on boolean, changes boolean, until timestamptz, why text, actor text,
             owner text, generation bigint, digest text)
    ), locked AS MATERIALIZED (
      SELECT r.id, r.lease_owner, r.lease_generation, r.lease_expires_at, r.inventory_digest
        FROM ${t.requests} r
       WHERE r.id IN (SELECT request_id FROM input WHERE owner IS NOT NULL) AND r.standing_order IS NULL
       ORDER BY r.id
         FOR UPDATE
    ), clock AS MATERIALIZED (
      -- An aggregate answers when its input is complete: this clock is read after the last of the locks was had.
      SELECT clock_timestamp() AS at, count(*) FROM locked
    ), allowed AS MATERIALIZED (
      SELECT input.* FROM input WHERE owner IS NULL
      UNION ALL
      SELECT input.*
        FROM input JOIN locked ON locked.id = input.request_id CROSS JOIN clock
       WHERE locked.lease_owner = input.owner
         AND locked.lease_generation = input.generation
         AND locked.lease_expires_at > clock.at
         AND locked.inventory_digest = input.digest
    ), closed AS (
      UPDATE ${t.stages} s
         SET is_current = false,
             status = 'completed',
             finished_at = coalesce(s.finished_at, clock_timestamp()),
             metadata_json = s.metadata_json
               || CASE WHEN i.closes_unfinished THEN '{"result": {"cancelled": true}}'::jsonb ELSE '{}'::jsonb END
               || jsonb_build_object('transition', i.transition)
        FROM allowed i
       WHERE i.kind <> 'stay'
         AND s.id = i.from_stage
         AND s.request_id = i.request_id
         AND s.is_current
         AND (s.status = 'completed' OR i.closes_unfinished)
      RETURNING s.request_id
    ), ready AS MATERIALIZED (
      SELECT i.* FROM allowed i LEFT JOIN closed ON closed.request_id = i.request_id
       WHERE i.kind = 'stay' OR i.from_stage IS NULL OR closed.request_id IS NOT NULL
    ), inserted AS (
      INSERT INTO ${t.stages} (
        id, request_id, stage, target_community_id, status, is_current, started_at, attempts, metadata_json)
      SELECT stage_id, request_id, stage, place, stage_status, true,
             CASE WHEN stage_status = 'running' THEN clock_timestamp() END, attempts, metadata
        FROM ready WHERE kind = 'enter'
    ), orders_ended AS (
      -- A cancel is used up by the transition that follows it; an end uses up whatever stands.
      UPDATE ${t.orders} o
         SET ended_at = clock_timestamp()
        FROM ready
       WHERE o.request_id = ready.request_id AND o.ended_at IS NULL
         AND (ready.kind = 'end' OR ready.kind = 'enter' AND o.kind = 'cancel')
    ), moved AS (
      UPDATE ${t.requests} r
         SET status = CASE WHEN i.held THEN 'held' ELSE i.status END,
             held_status = CASE WHEN i.held THEN i.status END,
             standing_order = CASE WHEN i.held THEN 'hold' END,
             retry_count = CASE WHEN i.kind = 'stay' THEN r.retry_count ELSE 0 END,
             last_error = CASE WHEN i.kind = 'stay' THEN r.last_error
                               WHEN i.status IN ('retry_wait', 'blocked') THEN i.why END,
             next_attempt_at = i.until,
             blocked_at = CASE WHEN i.status = 'blocked' THEN clock_timestamp() END,
             blocked_reason = CASE WHEN i.status = 'blocked' THEN i.why END,
             completed_at = CASE WHEN i.kind = 'end' THEN clock_timestamp() END,
             lease_owner = CASE WHEN i.goes_on THEN r.lease_owner END,
             lease_expires_at = CASE WHEN i.goes_on THEN r.lease_expires_at END
        FROM ready i
       WHERE r.id = i.request_id AND i.changes
    ), logged AS (
      INSERT INTO ${t.events} (request_id, event, actor, detail)
      SELECT i.request_id,
             CASE WHEN i.held THEN 'held' WHEN i.kind = 'end' THEN i.status
                  WHEN i.from_stage IS NULL THEN 'initialized' ELSE i.status END,
             i.actor,
             jsonb_strip_nulls(jsonb_build_object('stage', i.stage, 'place', i.place, 'why', i.why, 'until', i.until))
        FROM ready i
       -- From one stage to the next is no change of status, and the stages themselves tell of it.
       WHERE i.held OR i.kind = 'end' OR i.kind = 'enter' AND (i.from_stage IS NULL OR i.status <> 'running')
    )
    SELECT request_id FROM ready`.execute(db);
  return new Set(rows.map(({ request_id }) => request_id));
}

/** What is undefined stays out of the parameter, and is null in the statement. */
function columnsOf({ move, lease }: MoveToApply) {
  const { snapshot, kind, decision, current, next } = move;
  const wait = decision.kind === 'enter' ? decision.wait : undefined;
  return {
    request_id: snapshot.request.id,
    kind,
    from_stage: kind === 'stay' ? undefined : current?.id,
    closes_unfinished: move.closesUnfinished,
    transition: kind === 'stay' ? undefined : transitionOf(decision),
    stage_id: next?.id,
    stage: next?.stage,
    place: next?.target_community_id ?? undefined,
    stage_status: next?.status,
    attempts: next?.attempts,
    metadata: next?.metadata_json as unknown as JsonObject | undefined,
    status: move.status,
    held: move.held,
    goes_on: goesOn(move),
    changes: changesRequest(move),
    until: wait?.until?.toISOString(),
    why: wait === undefined ? undefined : storableText(wait.why),
    actor: snapshot.request.lease_owner,
    owner: lease?.owner,
    generation: lease?.generation,
    digest: snapshot.request.inventory_digest ?? undefined,
  };
}
