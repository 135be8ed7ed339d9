/** What a decision makes of a request: plain values, before and after the statement that writes them. */
import { v7 as uuidv7 } from 'uuid';
import type { Queries } from '../storage/database.js';
import type { JsonObject } from '../storage/json.js';
import { storableJson } from '../storage/storable.js';
import type { Decision } from './decision.js';
import type { RequestStatus, StageRow } from './request.js';
import { RecordIntegrityError } from './request-error.js';
import type { Snapshot } from './snapshot.js';

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

/** A decision that fits its request, with what the statement needs. */
export interface Move {
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

/**
 * @param current - the current row, where there is one.
 * @param begins - whether the owner runs the next stage at once: the statement that inserts it then marks it as running (EX-6).
 * @throws RecordIntegrityError when the decision does not fit the lifecycle.
 */
export function planMove(snapshot: Snapshot, current: StageRow | null, decision: Decision, begins: boolean): Move {
  const move = plan(snapshot, current, decision);
  return begins ? begun(move) : move;
}

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

/** A next stage that its owner runs at once begins with the transition; one that waits, or is held, begins later. */
function begun(move: Move): Move {
  if (move.next === null || !goesOn(move)) return move;
  return { ...move, next: { ...move.next, status: 'running', started_at: move.snapshot.now, attempts: 1 } };
}

export function transitionOf(decision: Decision): JsonObject | null {
  return decision.kind === 'resume' ? null : storableJson(decision.transition);
}

/** Whether the owner keeps the request and runs its current stage. */
export function goesOn({ kind, held, status }: Move): boolean {
  return kind !== 'end' && !held && status === 'running';
}

/** From one running stage to the next the request stays as it is, and a new version of its row would only be dead weight. */
export function changesRequest(move: Move): boolean {
  const { status, retry_count, last_error, next_attempt_at, blocked_at, standing_order } = move.snapshot.request;
  const isPlain = [last_error, next_attempt_at, blocked_at, standing_order].every((value) => value === null);
  return !(goesOn(move) && status === 'running' && retry_count === 0 && isPlain);
}

export function endingOf({ kind, decision, snapshot }: Move): Ending[] {
  if (kind !== 'end' || decision.kind !== 'end') return [];
  return [{ requestId: snapshot.request.id, status: decision.status, snapshot }];
}

export function resultOf(move: Move): TransitionResult {
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
