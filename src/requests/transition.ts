/** Turns saved outcomes into next stages: transaction 2 of every stage (EX-3, EX-8). */
import { sql } from 'kysely';
import { v7 as uuidv7 } from 'uuid';
import { type Queries, recordset } from '../storage/database.js';
import type { JsonObject } from '../storage/json.js';
import { storableJson, storableText } from '../storage/storable.js';
import type { Decision } from './decision.js';
import type { RequestStatus, StageRow } from './request.js';
import { RecordIntegrityError } from './request-error.js';
import { lockSnapshots, type LockedSnapshot, type Snapshot, type SnapshotItem } from './snapshot.js';

/** Its lease is null for an operator's order, which needs the request to be free. */
export interface TransitionItem extends SnapshotItem {
  /** The stage whose saved outcome the caller knows of; null after a restart, when the database alone is the truth (EX-13). */
  readonly expectedStageId: string | null;
  /** Whether the owner runs the next stage at once: the statement that inserts it then marks it as running, too (EX-6). */
  readonly begins?: boolean;
}

export type TransitionResult =
  /** This stage is to be run now. `begun`: it is marked as running already. The snapshot is as the transition leaves it. */
  | { readonly kind: 'current'; readonly stage: StageRow; readonly begun: boolean; readonly snapshot: Snapshot }
  /** The next stage exists and waits, or an order holds it; ownership was given back by the same statement. */
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
  /** `stay`: the current row is resumed, or a hold keeps it where it is. */
  readonly kind: 'stay' | 'enter' | 'end';
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
    if (item.expectedStageId !== null && current !== null) requireCompleted(current);
    const move = plan(snapshot, current, rules.decide(snapshot));
    return { move: item.begins === true ? begun(move) : move };
  } catch (error) {
    return { result: { kind: 'error', error } };
  }
}

/** A next stage that its owner runs at once begins with the transition; one that waits, or is held, begins later. */
function begun(move: Move): Move {
  if (move.next === null || !goesOn(move)) return move;
  return { ...move, next: { ...move.next, status: 'running', started_at: move.snapshot.now, attempts: 1 } };
}

/** Whoever names the stage that it has finished is not given it to run again (EX-8). */
function requireCompleted(current: StageRow): void {
  if (current.status === 'completed') return;
  throw new RecordIntegrityError(
    `Stage ${current.id} (${current.stage}) was saved as completed and is ${current.status}: a person has to look at its request.`,
    current.request_id,
  );
}

/** @throws RecordIntegrityError when the decision does not fit the lifecycle. */
function plan(snapshot: Snapshot, current: StageRow | null, decision: Decision): Move {
  const { request } = snapshot;
  requireDecision(request.id, decision);
  const isCancelled = request.standing_order === 'cancel';
  const held = request.standing_order === 'hold';
  const stay: Move = {
    snapshot,
    kind: 'stay',
    decision,
    current,
    closesUnfinished: false,
    next: null,
    status: 'running',
    held,
  };
  if (decision.kind === 'resume') {
    if (current === null || current.status === 'completed') {
      throw new RecordIntegrityError(
        `Request ${request.id} was to resume a stage and has none that is unfinished.`,
        request.id,
      );
    }
    return stay;
  }
  const isUnfinished = current !== null && current.status !== 'completed';
  if (isUnfinished && !isCancelled) {
    throw new RecordIntegrityError(
      `Request ${request.id} was to leave stage ${current.id} (${current.stage}), which is ${current.status} and not completed.`,
      request.id,
    );
  }
  if (decision.kind === 'end') {
    // The end destroys what cannot be had back: it waits for the hold.
    if (held) return stay;
    return { ...stay, kind: 'end', closesUnfinished: isUnfinished, status: decision.status };
  }
  const next = successor(request.id, current, decision);
  return { ...stay, kind: 'enter', closesUnfinished: isUnfinished, next, status: decision.wait?.status ?? 'running' };
}

/** What a policy answers is checked at run time too: one that waits without a time would be claimed over and over. */
function requireDecision(requestId: string, decision: Decision): void {
  const wait = decision.kind === 'enter' ? decision.wait : undefined;
  const fits =
    ['resume', 'enter', 'end'].includes(decision.kind) &&
    (wait === undefined || (wait.status === 'blocked') === (wait.until === null));
  if (fits) return;
  throw new RecordIntegrityError(
    `The policy decided for request ${requestId} what is no decision, or a wait without its time: repair the workflow.`,
    requestId,
  );
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
             stage_id uuid, stage text, place text, stage_status text, attempts integer, metadata jsonb,
             status text, held boolean, goes_on boolean, changes boolean, until timestamptz, why text, actor text)
    ), closed AS (
      UPDATE ${tx.t.stages} s
         SET is_current = false,
             status = 'completed',
             finished_at = coalesce(s.finished_at, clock_timestamp()),
             metadata_json = s.metadata_json
               || CASE WHEN i.closes_unfinished THEN '{"result": {"cancelled": true}}'::jsonb ELSE '{}'::jsonb END
               || jsonb_build_object('transition', i.transition)
        FROM input i
       WHERE i.kind <> 'stay'
         AND s.id = i.from_stage
         AND s.request_id = i.request_id
         AND s.is_current
         AND (s.status = 'completed' OR i.closes_unfinished)
      RETURNING s.request_id
    ), ready AS MATERIALIZED (
      SELECT i.* FROM input i LEFT JOIN closed ON closed.request_id = i.request_id
       WHERE i.kind = 'stay' OR i.from_stage IS NULL OR closed.request_id IS NOT NULL
    ), inserted AS (
      INSERT INTO ${tx.t.stages} (
        id, request_id, stage, target_community_id, status, is_current, started_at, attempts, metadata_json)
      SELECT stage_id, request_id, stage, place, stage_status, true,
             CASE WHEN stage_status = 'running' THEN clock_timestamp() END, attempts, metadata
        FROM ready WHERE kind = 'enter'
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
      INSERT INTO ${tx.t.events} (request_id, event, actor, detail)
      SELECT i.request_id,
             CASE WHEN i.held THEN 'held' WHEN i.kind = 'end' THEN i.status
                  WHEN i.from_stage IS NULL THEN 'initialized' ELSE i.status END,
             i.actor,
             jsonb_strip_nulls(jsonb_build_object('stage', i.stage, 'place', i.place, 'why', i.why, 'until', i.until))
        FROM ready i
       -- From one stage to the next is no change of status, and the stages themselves tell of it.
       WHERE i.held OR i.kind = 'end' OR i.kind = 'enter' AND (i.from_stage IS NULL OR i.status <> 'running')
    )
    SELECT count(*)::integer AS count FROM ready`.execute(tx.db);
  if (rows[0]?.count !== moves.length) {
    // The parents are locked and the rows were read after that: this can only be a fault of the program.
    throw new Error('A transition met a stage that is no longer current although its request was locked.');
  }
}

/** What is undefined stays out of the parameter, and is null in the statement. */
function columnsOf(move: Move) {
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
  };
}

function transitionOf(decision: Decision): JsonObject | null {
  return decision.kind === 'resume' ? null : storableJson(decision.transition);
}

/** Whether the owner keeps the request and runs its current stage. */
function goesOn({ kind, held, status }: Move): boolean {
  return kind !== 'end' && !held && status === 'running';
}

/** From one running stage to the next the request stays as it is, and a new version of its row would only be dead weight. */
function changesRequest(move: Move): boolean {
  const { status, retry_count, last_error, next_attempt_at, blocked_at, standing_order } = move.snapshot.request;
  const isPlain = [last_error, next_attempt_at, blocked_at, standing_order].every((value) => value === null);
  return !(goesOn(move) && status === 'running' && retry_count === 0 && isPlain);
}

function endingOf({ kind, decision, snapshot }: Move): Ending[] {
  if (kind !== 'end' || decision.kind !== 'end') return [];
  return [{ requestId: snapshot.request.id, status: decision.status, snapshot }];
}

function resultOf(move: Move): TransitionResult {
  const { kind, decision, snapshot } = move;
  if (kind === 'end' && decision.kind === 'end') return { kind: 'ended', status: decision.status };
  if (move.held) {
    const hold = snapshot.orders.find((order) => order.kind === 'hold' && order.ended_at === null);
    return { kind: 'waiting', status: 'held', until: hold?.until ?? null, why: null };
  }
  if (decision.kind === 'enter' && decision.wait !== undefined) {
    return { kind: 'waiting', ...decision.wait };
  }
  const stage = (move.next ?? move.current) as StageRow;
  return { kind: 'current', stage, begun: move.next?.status === 'running', snapshot: snapshotAfter(move) };
}

/** A request that has just entered a stage which its worker goes on with. */
const AS_NEW = {
  standing_order: null,
  retry_count: 0,
  last_error: null,
  next_attempt_at: null,
  blocked_at: null,
  blocked_reason: null,
} as const;

/** What the statement has made of the snapshot, so that a handler sees the history that leads to its stage. */
function snapshotAfter({ snapshot, kind, decision, current, closesUnfinished, next, status }: Move): Snapshot {
  const { request, stages, now } = snapshot;
  if (kind !== 'enter' || next === null) return { ...snapshot, request: { ...request, status } };
  const closed = stages.map((stage): StageRow => {
    if (stage !== current) return stage;
    const metadata_json = {
      ...stage.metadata_json,
      ...(closesUnfinished ? { result: { cancelled: true } } : {}),
      transition: transitionOf(decision) ?? {},
    };
    const finished_at = stage.finished_at ?? now;
    return { ...stage, is_current: false, status: 'completed', finished_at, metadata_json };
  });
  return {
    ...snapshot,
    request: { ...request, ...AS_NEW, status },
    stages: [...closed, next],
  };
}
