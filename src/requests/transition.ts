/** Turns saved outcomes into next stages: transaction 2 of every stage (EX-3, EX-8). */
import { sql } from 'kysely';
import { v7 as uuidv7 } from 'uuid';
import { type Queries, recordset } from '../storage/database.js';
import type { JsonObject } from '../storage/json.js';
import { storableJson, storableText } from '../storage/storable.js';
import type { Decision } from './decision.js';
import { type Lease, type RequestStatus, type StageRow } from './request.js';
import { RecordIntegrityError } from './request-error.js';
import { lockSnapshots, type LockedSnapshot, type Snapshot } from './snapshot.js';

export interface TransitionItem {
  readonly requestId: string;
  /** Null for an operator's order, which needs the request to be free. */
  readonly lease: Lease | null;
  /** The stage whose saved outcome the caller knows of; null after a restart, when the database alone is the truth (EX-13). */
  readonly expectedStageId: string | null;
}

export type TransitionResult =
  /** This stage is to be run now. */
  | { readonly kind: 'current'; readonly stage: StageRow; readonly snapshot: Snapshot }
  /** The next stage exists and waits, or an order holds it; ownership was given back. */
  | {
      readonly kind: 'waiting';
      readonly status: RequestStatus;
      readonly until: Date | null;
      readonly why: string | null;
    }
  | { readonly kind: 'ended'; readonly status: 'completed' | 'cancelled' }
  /** The lease was not valid, or the row is no longer the current one: nothing was changed (EX-13, EX-15). */
  | { readonly kind: 'stale' }
  /** The decision function threw, or what it decided does not fit: nothing was changed (EX-11, EX-22). */
  | { readonly kind: 'error'; readonly error: unknown };

export interface Ending {
  readonly requestId: string;
  readonly status: 'completed' | 'cancelled';
  readonly snapshot: Snapshot;
}

export interface TransitionRules {
  /** Chooses from saved history; pure and synchronous, since it runs while the parent is locked (EX-22). */
  decide(snapshot: Snapshot): Decision;
  /** SQL that commits with terminal transitions, for all of them together. */
  end?(tx: Queries, endings: readonly Ending[]): Promise<void>;
}

/** Applies one transition to each request, in a constant number of statements. Call it inside a transaction. */
export async function transition(
  tx: Queries,
  items: readonly TransitionItem[],
  rules: TransitionRules,
): Promise<ReadonlyMap<string, TransitionResult>> {
  const snapshots = await lockSnapshots(tx, items);
  const results = new Map<string, TransitionResult>();
  const moves: Move[] = [];
  for (const item of items) {
    const found = consider(item, snapshots.get(item.requestId), rules);
    if ('move' in found) moves.push(found.move);
    else results.set(item.requestId, found.result);
  }
  await applyMoves(tx, moves);
  const endings = moves.flatMap(endingOf);
  if (endings.length > 0) await rules.end?.(tx, endings);
  for (const move of moves) results.set(move.snapshot.request.id, resultOf(move));
  return results;
}

/** A decision that fits its request, with what the statement needs. */
interface Move {
  readonly snapshot: Snapshot;
  readonly decision: Decision;
  /** The current row, where there is one. */
  readonly current: StageRow | null;
  /** An order to cancel closes the current row although its handler has not finished. */
  readonly closesUnfinished: boolean;
  readonly next: StageRow | null;
  /** The request's status if no hold stood. */
  readonly status: RequestStatus;
  readonly held: boolean;
}

function consider(
  item: TransitionItem,
  snapshot: LockedSnapshot | undefined,
  rules: TransitionRules,
): { readonly move: Move } | { readonly result: TransitionResult } {
  if (snapshot === undefined) return { result: { kind: 'stale' } };
  const { status } = snapshot.request;
  if (status === 'completed' || status === 'cancelled') return { result: { kind: 'ended', status } };
  if (snapshot.ownership !== (item.lease === null ? 'free' : 'own')) return { result: { kind: 'stale' } };
  const current = snapshot.stages.find((stage) => stage.is_current) ?? null;
  if (item.expectedStageId !== null && item.expectedStageId !== current?.id) return { result: { kind: 'stale' } };
  try {
    return { move: plan(snapshot, current, rules.decide(snapshot)) };
  } catch (error) {
    return { result: { kind: 'error', error } };
  }
}

/** @throws RecordIntegrityError when the decision does not fit the lifecycle. */
function plan(snapshot: Snapshot, current: StageRow | null, decision: Decision): Move {
  const { request } = snapshot;
  const isCancelled = request.standing_order === 'cancel';
  const held = request.standing_order === 'hold' && decision.kind !== 'end';
  if (decision.kind === 'resume') {
    if (current === null || current.status === 'completed') {
      throw new RecordIntegrityError(
        `Request ${request.id} was to resume a stage and has none that is unfinished.`,
        request.id,
      );
    }
    return { snapshot, decision, current, closesUnfinished: false, next: null, status: 'running', held };
  }
  const isUnfinished = current !== null && current.status !== 'completed';
  if (isUnfinished && !isCancelled) {
    throw new RecordIntegrityError(
      `Request ${request.id} was to leave stage ${current.id} (${current.stage}), which is ${current.status} and not completed.`,
      request.id,
    );
  }
  const next = decision.kind === 'enter' ? successor(request.id, current, decision) : null;
  const status = decision.kind === 'end' ? decision.status : (decision.wait?.status ?? 'running');
  return { snapshot, decision, current, closesUnfinished: isUnfinished, next, status, held };
}

function successor(requestId: string, current: StageRow | null, decision: Decision & { kind: 'enter' }): StageRow {
  return {
    id: uuidv7(),
    request_id: requestId,
    stage: decision.stage,
    target_community_id: decision.place,
    status: 'pending',
    is_current: true,
    started_at: null,
    finished_at: null,
    attempts: 0,
    metadata_json: { inputs: storableJson(decision.inputs), previous_stage_id: current?.id ?? null },
    last_error: null,
  };
}

/**
 * One statement. The INSERT reads from the UPDATE's RETURNING: otherwise the successor would meet the old row in the index
 * that allows one current stage (EX-8). It inserts only where the old row was still current and completed.
 */
async function applyMoves(tx: Queries, moves: readonly Move[]): Promise<void> {
  if (moves.length === 0) return;
  const { rows } = await sql<{ count: number }>`
    WITH input AS MATERIALIZED (
      SELECT * FROM jsonb_to_recordset(${recordset(moves.map(columnsOf))}) AS x (
             request_id uuid, kind text, from_stage uuid, closes_unfinished boolean, transition jsonb,
             stage_id uuid, stage text, place text, metadata jsonb,
             status text, held boolean, until timestamptz, why text, actor text)
    ), closed AS (
      UPDATE ${tx.t.stages} s
         SET is_current = false,
             status = 'completed',
             finished_at = coalesce(s.finished_at, clock_timestamp()),
             metadata_json = s.metadata_json
               || CASE WHEN i.closes_unfinished THEN '{"result": {"cancelled": true}}'::jsonb ELSE '{}'::jsonb END
               || jsonb_build_object('transition', i.transition)
        FROM input i
       WHERE i.kind <> 'resume'
         AND s.id = i.from_stage
         AND s.request_id = i.request_id
         AND s.is_current
         AND (s.status = 'completed' OR i.closes_unfinished)
      RETURNING s.request_id
    ), ready AS MATERIALIZED (
      SELECT i.* FROM input i LEFT JOIN closed ON closed.request_id = i.request_id
       WHERE i.kind = 'resume' OR i.from_stage IS NULL OR closed.request_id IS NOT NULL
    ), inserted AS (
      INSERT INTO ${tx.t.stages} (id, request_id, stage, target_community_id, status, is_current, metadata_json)
      SELECT stage_id, request_id, stage, place, 'pending', true, metadata FROM ready WHERE kind = 'enter'
    ), orders_ended AS (
      -- A cancel is used up by the transition that follows it; an end uses up whatever stands.
      UPDATE ${tx.t.orders} o
         SET ended_at = clock_timestamp()
        FROM ready
       WHERE o.request_id = ready.request_id AND o.ended_at IS NULL
         AND (ready.kind = 'end' OR ready.kind = 'enter' AND o.kind = 'cancel')
    ), moved AS (
      UPDATE ${tx.t.requests} r
         SET status = CASE WHEN i.held THEN 'held' ELSE i.status END,
             held_status = CASE WHEN i.held THEN i.status END,
             standing_order = CASE WHEN i.held THEN 'hold' END,
             retry_count = CASE WHEN i.kind = 'resume' THEN r.retry_count ELSE 0 END,
             last_error = CASE WHEN i.kind = 'resume' THEN r.last_error
                               WHEN i.status IN ('retry_wait', 'blocked') THEN i.why END,
             next_attempt_at = i.until,
             blocked_at = CASE WHEN i.status = 'blocked' THEN clock_timestamp() END,
             blocked_reason = CASE WHEN i.status = 'blocked' THEN i.why END,
             completed_at = CASE WHEN i.kind = 'end' THEN clock_timestamp() END,
             lease_owner = CASE WHEN i.kind = 'end' THEN NULL ELSE r.lease_owner END,
             lease_expires_at = CASE WHEN i.kind = 'end' THEN NULL ELSE r.lease_expires_at END
        FROM ready i
       WHERE r.id = i.request_id
      RETURNING r.id
    ), logged AS (
      INSERT INTO ${tx.t.events} (request_id, event, actor, detail)
      SELECT i.request_id,
             CASE WHEN i.held THEN 'held' WHEN i.kind = 'end' THEN i.status
                  WHEN i.from_stage IS NULL THEN 'initialized' WHEN i.status <> 'running' THEN i.status ELSE 'transition' END,
             i.actor,
             jsonb_strip_nulls(jsonb_build_object('stage', i.stage, 'place', i.place, 'why', i.why, 'until', i.until))
        FROM ready i WHERE i.kind <> 'resume' OR i.held
    )
    SELECT count(*)::integer AS count FROM moved`.execute(tx.db);
  if (rows[0]?.count !== moves.length) {
    // The parents are locked and the rows were read after that: this can only be a fault of the program.
    throw new Error('A transition met a stage that is no longer current although its request was locked.');
  }
}

function columnsOf(move: Move) {
  const { snapshot, decision, current, next } = move;
  const wait = decision.kind === 'enter' ? decision.wait : undefined;
  return {
    request_id: snapshot.request.id,
    kind: decision.kind,
    from_stage: decision.kind === 'resume' ? null : (current?.id ?? null),
    closes_unfinished: move.closesUnfinished,
    transition: decision.kind === 'resume' ? null : storableJson(decision.transition),
    stage_id: next?.id ?? null,
    stage: next?.stage ?? null,
    place: next?.target_community_id ?? null,
    metadata: next === null ? null : (next.metadata_json as unknown as JsonObject),
    status: move.status,
    held: move.held,
    until: wait?.until?.toISOString() ?? null,
    why: wait === undefined ? null : storableText(wait.why),
    actor: snapshot.request.lease_owner,
  };
}

function endingOf(move: Move): Ending[] {
  if (move.decision.kind !== 'end') return [];
  return [{ requestId: move.snapshot.request.id, status: move.decision.status, snapshot: move.snapshot }];
}

function resultOf(move: Move): TransitionResult {
  const { decision, snapshot } = move;
  if (decision.kind === 'end') return { kind: 'ended', status: decision.status };
  if (move.held) return { kind: 'waiting', status: 'held', until: null, why: null };
  if (decision.kind === 'enter' && decision.wait !== undefined) {
    return { kind: 'waiting', ...decision.wait };
  }
  return { kind: 'current', stage: (move.next ?? move.current) as StageRow, snapshot };
}
