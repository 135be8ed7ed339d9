/**
 * The contract of the executor as plain values: what one request is, and what every operation makes of it. Nothing in here
 * comes from the product, so that a rule which the product forgets stands here still. Numbers are those of
 * docs/contracts/executor.md.
 *
 * The workflow is a laundry: gate, then wash in the tub, rinse in the tub where the wash says so, then dry.
 */
export const WORKERS = ['worker-1', 'worker-2', 'worker-3'] as const;
export type Worker = (typeof WORKERS)[number];
/** The executor id of a run by the engine, which keeps its lease to itself. */
export const ENGINE = 'engine';

export type Status =
  | 'submitted'
  | 'approved'
  | 'running'
  | 'waiting'
  | 'retry_wait'
  | 'awaiting_approval'
  | 'held'
  | 'blocked'
  | 'completed'
  | 'cancelled';

export type Pause = 'waiting' | 'blocked' | null;

export type Outcome =
  | { readonly kind: 'completed'; readonly rinse: boolean; readonly pause: Pause }
  | { readonly kind: 'postponed' }
  | { readonly kind: 'failed'; readonly retryable: boolean }
  | { readonly kind: 'revised' };

export interface Stage {
  readonly stage: 'gate' | 'wash' | 'rinse' | 'dry';
  readonly status: 'pending' | 'running' | 'completed' | 'failed';
  readonly isCurrent: boolean;
  readonly attempts: number;
  readonly isStarted: boolean;
  readonly isFinished: boolean;
  readonly result: 'none' | 'cancelled' | 'rinse' | 'plain';
  /** What its saved result asks the policy to wait for before the next stage. */
  readonly pause: Pause;
  readonly hasError: boolean;
}

export interface Request {
  readonly status: Status;
  /** What a held request goes back to. */
  readonly heldStatus: Status | null;
  readonly order: 'hold' | 'cancel' | null;
  readonly isHoldOver: boolean;
  readonly owner: string | null;
  readonly generation: number;
  readonly isLeaseLive: boolean;
  readonly retryCount: number;
  readonly nextAttempt: 'none' | 'later' | 'due';
  readonly hasError: boolean;
  readonly isBlocked: boolean;
  readonly isOver: boolean;
  readonly revision: number;
  /** Who has approved the current revision. */
  readonly approvers: readonly string[];
  readonly approvalsRequired: number;
  /** In the order of their chain. */
  readonly stages: readonly Stage[];
  readonly events: readonly string[];
}

/** What a worker remembers, which may be long out of date. */
export interface Memory {
  readonly generation: number;
  /** The stage that its last transition gave it, by its place in the chain. */
  readonly stage: number | null;
  /** Whether it has saved that stage as completed. */
  readonly hasSaved: boolean;
}

export interface World {
  readonly request: Request;
  readonly memories: Readonly<Partial<Record<Worker, Memory>>>;
}

/** `writes`: false where not one row may have been touched, but for the log of events (OP-10, EX-15). */
export interface Step<S> {
  readonly state: S;
  readonly answer: string;
  readonly writes: boolean;
}

const REQUESTER = 'operator-a';
export const MOST_FAILURES = 8;

export function submitted(approvalsRequired: number): Request {
  return {
    status: 'submitted',
    heldStatus: null,
    order: null,
    isHoldOver: false,
    owner: null,
    generation: 0,
    isLeaseLive: false,
    retryCount: 0,
    nextAttempt: 'none',
    hasError: false,
    isBlocked: false,
    isOver: false,
    revision: 1,
    approvers: [],
    approvalsRequired,
    stages: [],
    events: ['submitted'],
  };
}

// --- Words

const hasEnded = ({ status }: Request): boolean => status === 'completed' || status === 'cancelled';
const isFree = ({ owner, isLeaseLive }: Request): boolean => owner === null || !isLeaseLive;
const current = ({ stages }: Request): Stage | null => stages.find(({ isCurrent }) => isCurrent) ?? null;
const log = (request: Request, ...events: readonly string[]): Request => ({
  ...request,
  events: [...request.events, ...events],
});
const unowned = (request: Request): Request => ({ ...request, owner: null, isLeaseLive: false });
const wrote = (state: Request, answer: string): Step<Request> => ({ state, answer, writes: true });
const refused = (state: Request, answer: string): Step<Request> => ({ state, answer, writes: false });

function changeCurrent(request: Request, change: Partial<Stage>): Request {
  return { ...request, stages: request.stages.map((stage) => (stage.isCurrent ? { ...stage, ...change } : stage)) };
}

/** EX-14, EX-15: the same owner, the same generation, and not expired. */
function owns(request: Request, owner: string, generation: number): boolean {
  return request.owner === owner && request.generation === generation && request.isLeaseLive;
}

/** A hold is lifted: the request goes back to what it was. */
function lifted(request: Request): Request {
  const status = request.heldStatus ?? request.status;
  return log({ ...request, order: null, isHoldOver: false, status, heldStatus: null }, 'hold_ended');
}

/** OP-9: when its time has come, a hold is over for everybody. */
export function withoutHoldThatIsOver(request: Request): Request {
  return request.order === 'hold' && request.isHoldOver ? lifted(request) : request;
}

// --- Time

/** The lease runs out; its owner may be alive and not know. */
export function expire(request: Request): Step<Request> | null {
  return request.isLeaseLive ? wrote({ ...request, isLeaseLive: false }, 'expired') : null;
}

/** The time comes for which the request waits. */
export function becomeDue(request: Request): Step<Request> | null {
  return request.nextAttempt === 'later' ? wrote({ ...request, nextAttempt: 'due' }, 'due') : null;
}

export function holdTimeComes(request: Request): Step<Request> | null {
  const stands = request.order === 'hold' && !request.isHoldOver;
  return stands ? wrote({ ...request, isHoldOver: true }, 'over') : null;
}

/**
 * It has failed so often in a row that the next failure is the last one. Not under a live lease: a failure ends the lease, so
 * its owner counts on nobody counting meanwhile.
 */
export function almostBlocked(request: Request): Step<Request> | null {
  if (hasEnded(request) || request.isLeaseLive) return null;
  return wrote({ ...request, retryCount: MOST_FAILURES - 1 }, 'counted');
}

// --- Operators

/** OP-2: a live request of the same subject is named. */
export function submitAgain(request: Request): Step<Request> | null {
  return hasEnded(request) ? null : refused(request, 'live');
}

/** EX-1, OP-3. */
export function approve(before: Request, by: string): Step<Request> {
  const request = withoutHoldThatIsOver(before);
  if (request.approvers.includes(by)) return refused(before, 'ALREADY_APPROVED_BY');
  if (request.status !== 'submitted' && request.status !== 'awaiting_approval') {
    return refused(before, 'NOT_AWAITING_APPROVAL');
  }
  if (by === REQUESTER) return refused(before, 'APPROVER_IS_REQUESTER');
  const saved = log({ ...request, approvers: [...request.approvers, by] }, 'approved');
  if (saved.approvers.length < saved.approvalsRequired) return wrote(saved, saved.status);
  const status = saved.stages.length > 0 ? 'running' : 'approved';
  return wrote({ ...saved, status, nextAttempt: 'none' }, status);
}

/** OP-9: until the gate has completed; never after. */
export function cancel(request: Request): Step<Request> {
  if (hasEnded(request)) return refused(request, 'WRONG_STATUS');
  if (request.order === 'cancel') {
    if (!isFree(request)) return refused(request, 'ORDER_STANDS');
    return carryOutCancel(request);
  }
  const gate = request.stages[0];
  if (gate?.status === 'completed') return refused(request, 'POINT_OF_NO_RETURN');
  const free = request.order === 'hold' ? lifted(request) : request;
  const ordered: Request = log({ ...free, order: 'cancel' }, 'cancel_ordered');
  // Whoever owns it acts on the order.
  return isFree(request) ? carryOutCancel(ordered) : wrote(ordered, `pending ${ordered.status}`);
}

function carryOutCancel(request: Request): Step<Request> {
  return wrote(end(closeCurrent(request, true), 'cancelled'), 'done cancelled');
}

export function hold(before: Request): Step<Request> {
  const request = withoutHoldThatIsOver(before);
  if (hasEnded(request)) return refused(before, 'WRONG_STATUS');
  if (request.order !== null) return refused(before, 'ORDER_STANDS');
  const ordered: Request = log({ ...request, order: 'hold', isHoldOver: false }, 'hold_ordered');
  if (!isFree(request)) return wrote(ordered, `pending ${ordered.status}`);
  return wrote({ ...ordered, heldStatus: ordered.status, status: 'held' }, 'done held');
}

export function endHold(request: Request): Step<Request> {
  if (hasEnded(request) || request.order !== 'hold') return refused(request, 'WRONG_STATUS');
  const after = lifted(request);
  return wrote(after, `done ${after.status}`);
}

export function unblock(before: Request): Step<Request> {
  const request = withoutHoldThatIsOver(before);
  if (hasEnded(request) || request.status !== 'blocked') return refused(before, 'WRONG_STATUS');
  const next: Status = request.stages.length > 0 ? 'running' : 'approved';
  const isHeld = request.order === 'hold';
  const after: Request = {
    ...log(request, 'unblock_ordered'),
    status: isHeld ? 'held' : next,
    heldStatus: isHeld ? next : null,
    retryCount: 0,
    nextAttempt: 'none',
    isBlocked: false,
  };
  return wrote(after, `done ${after.status}`);
}

// --- Ownership

const CLAIMABLE: readonly Status[] = ['approved', 'running', 'waiting', 'retry_wait'];

/** EX-2, EX-16, EX-17, EX-21: ownership and nothing else. */
export function claim(before: Request, owner: string): Step<Request> {
  const request = withoutHoldThatIsOver(before);
  if (request.isLeaseLive) return refused(before, 'LEASED');
  const waits = request.status === 'waiting' || request.status === 'retry_wait';
  if (waits && request.nextAttempt === 'later') return refused(before, 'NOT_DUE');
  if (!CLAIMABLE.includes(request.status)) return refused(before, 'WRONG_STATUS');
  return owned(request, owner);
}

/** A worker's round: holds that are over end first, and what is not due stays. */
export function claimDue(before: Request, owner: string): Step<Request> {
  const request = withoutHoldThatIsOver(before);
  const isDue = CLAIMABLE.includes(request.status) && request.nextAttempt !== 'later' && isFree(request);
  if (isDue) return owned(request, owner);
  return { state: request, answer: 'nothing', writes: request !== before };
}

function owned(request: Request, owner: string): Step<Request> {
  const generation = request.generation + 1;
  const claimed: Request = { ...request, owner, generation, isLeaseLive: true };
  return wrote(request.owner === null ? claimed : log(claimed, 'taken_over'), `generation ${generation}`);
}

/** EX-14: only what has not run out. */
export function renew(request: Request, owner: string, generation: number): Step<Request> {
  return owns(request, owner, generation) ? wrote(request, 'renewed') : refused(request, 'lost');
}

export function release(request: Request, owner: string, generation: number): Step<Request> {
  return owns(request, owner, generation) ? wrote(unowned(request), 'released') : refused(request, 'stale');
}

export function block(request: Request, owner: string, generation: number): Step<Request> {
  if (!owns(request, owner, generation)) return refused(request, 'stale');
  const blocked: Request = {
    ...unowned(request),
    status: 'blocked',
    heldStatus: null,
    isBlocked: true,
    hasError: true,
    nextAttempt: 'none',
  };
  return wrote(log(blocked, 'blocked'), 'blocked');
}

// --- Stages

/** EX-6, EX-16: the first start is the one that is kept. */
export function start(request: Request, owner: string, generation: number, stage: number): Step<Request> {
  if (!owns(request, owner, generation)) return refused(request, 'stale');
  if (request.order !== null) return refused(request, 'ordered');
  const row = request.stages[stage];
  if (row?.isCurrent !== true || row.status === 'completed') return refused(request, 'stale');
  const started = { status: 'running', isStarted: true, isFinished: false, attempts: row.attempts + 1 } as const;
  return wrote(changeCurrent(request, started), 'started');
}

/** EX-24: no intent is saved while an order stands. */
export function saveProgress(request: Request, owner: string, generation: number, stage: number): Step<Request> {
  if (!owns(request, owner, generation)) return refused(request, 'stale');
  if (request.order !== null) return refused(request, 'ordered');
  const row = request.stages[stage];
  if (row?.isCurrent !== true || row.status !== 'running') return refused(request, 'stale');
  return wrote(request, 'saved');
}

/** EX-7, EX-17, OP-9. */
export function save(
  request: Request,
  owner: string,
  generation: number,
  stage: number,
  outcome: Outcome,
): Step<Request> {
  const row = request.stages[stage];
  const isRunning = row?.isCurrent === true && row.status === 'running';
  if (!owns(request, owner, generation) || !isRunning) return refused(request, 'stale');
  if (request.order === 'cancel') {
    // Nothing of a cancelled request passes its point of no return.
    const closed = changeCurrent(request, { status: 'completed', isFinished: true, result: 'cancelled' });
    return wrote(log(closed, 'cancelled'), `kept ${request.status}`);
  }
  switch (outcome.kind) {
    case 'completed': {
      const result = outcome.rinse ? 'rinse' : 'plain';
      const done = { status: 'completed', isFinished: true, result, pause: outcome.pause } as const;
      return wrote(changeCurrent(request, done), `kept ${request.status}`);
    }
    case 'postponed':
      return givesUp(log(notDone(request), 'postponed'), 'waiting', 'later');
    case 'revised': {
      const revised = { ...notDone(request), revision: request.revision + 1, approvers: [] };
      return givesUp(log(revised, 'revised'), 'awaiting_approval', 'none');
    }
    case 'failed':
      return fail(request, outcome.retryable);
  }
}

function notDone(request: Request): Request {
  return changeCurrent(request, { status: 'pending', isFinished: false });
}

function fail(request: Request, retryable: boolean): Step<Request> {
  const retryCount = request.retryCount + 1;
  const goesOn = retryable && retryCount < MOST_FAILURES;
  const failed = changeCurrent(request, { status: 'failed', isFinished: true, hasError: true });
  const counted: Request = { ...failed, retryCount, hasError: true };
  return givesUp(
    log(counted, goesOn ? 'failed' : 'blocked'),
    goesOn ? 'retry_wait' : 'blocked',
    goesOn ? 'later' : 'none',
  );
}

/** Ownership of a request that waits is given back with what is saved; where a hold stands, it is held instead. */
function givesUp(request: Request, status: Status, nextAttempt: Request['nextAttempt']): Step<Request> {
  const isHeld = request.order === 'hold';
  const after: Request = {
    ...unowned(request),
    status: isHeld ? 'held' : status,
    heldStatus: isHeld ? status : null,
    nextAttempt,
    isBlocked: status === 'blocked',
  };
  return wrote(after, `released ${after.status}`);
}

// --- Transition

/**
 * EX-3, EX-8, EX-13.
 * @param expected - the stage that the worker has saved as completed, by its place in the chain; null after a restart.
 * @param begins - whether its worker goes on with what it enters.
 */
export function transition(
  request: Request,
  who: { readonly owner: string; readonly generation: number },
  expected: number | null,
  begins: boolean,
): Step<Request> {
  if (hasEnded(request)) return refused(request, `ended ${request.status}`);
  if (!owns(request, who.owner, who.generation)) return refused(request, 'stale');
  if (expected !== null && request.stages[expected]?.isCurrent !== true) return refused(request, 'stale');
  const row = current(request);
  if (expected !== null && row?.status !== 'completed') return refused(request, 'RECORD_INTEGRITY');
  if (request.order === 'cancel') return wrote(end(closeCurrent(request, true), 'cancelled'), 'ended cancelled');
  if (row !== null && row.status !== 'completed') return resume(request, row);
  const next = successor(request);
  if (next === null) {
    // The end destroys what cannot be had back: it waits for the hold.
    if (request.order === 'hold') return heldAt(request, 'running');
    return wrote(end(closeCurrent(request, false), 'completed'), 'ended completed');
  }
  return enter(request, next, begins, row?.pause ?? null);
}

function resume(request: Request, row: Stage): Step<Request> {
  if (request.order === 'hold') return heldAt(request, 'running');
  const resumed: Request = { ...request, status: 'running', nextAttempt: 'none', isBlocked: false };
  return { state: resumed, answer: `current ${row.stage} ${row.status}`, writes: true };
}

/** The request stays where it is, and nobody owns it. */
function heldAt(request: Request, goesBackTo: Status): Step<Request> {
  const held: Request = {
    ...unowned(request),
    status: 'held',
    heldStatus: goesBackTo,
    nextAttempt: 'none',
    isBlocked: false,
  };
  return wrote(log(held, 'held'), 'waiting held');
}

function successor({ stages }: Request): Stage['stage'] | null {
  const last = stages.at(-1);
  switch (last?.stage) {
    case undefined:
      return 'gate';
    case 'gate':
      return 'wash';
    case 'wash':
      return last?.result === 'rinse' ? 'rinse' : 'dry';
    case 'rinse':
      return 'dry';
    case 'dry':
      return null;
  }
}

/** EX-8, EX-17: the transition of a success clears count, error and time. */
function enter(request: Request, stage: Stage['stage'], begins: boolean, pause: Pause): Step<Request> {
  const isHeld = request.order === 'hold';
  const goesOn = begins && !isHeld && pause === null;
  const left = closeCurrent(request, false);
  const next: Stage = {
    stage,
    status: goesOn ? 'running' : 'pending',
    isCurrent: true,
    attempts: goesOn ? 1 : 0,
    isStarted: goesOn,
    isFinished: false,
    result: 'none',
    pause: null,
    hasError: false,
  };
  const status = pause ?? 'running';
  const entered: Request = {
    ...left,
    stages: [...left.stages, next],
    status: isHeld ? 'held' : status,
    heldStatus: isHeld ? status : null,
    retryCount: 0,
    hasError: pause === 'blocked',
    isBlocked: pause === 'blocked',
    nextAttempt: pause === 'waiting' ? 'later' : 'none',
  };
  if (isHeld) return wrote(log(unowned(entered), 'held'), 'waiting held');
  if (pause !== null) return wrote(log(unowned(entered), pause), `waiting ${pause}`);
  const isFirst = request.stages.length === 0;
  return wrote(isFirst ? log(entered, 'initialized') : entered, `current ${stage} ${next.status}`);
}

function closeCurrent(request: Request, isCancelled: boolean): Request {
  const row = current(request);
  const isUnfinished = row !== null && row.status !== 'completed';
  return changeCurrent(request, {
    isCurrent: false,
    status: 'completed',
    isFinished: true,
    ...(isCancelled && isUnfinished ? { result: 'cancelled' as const } : {}),
  });
}

function end(request: Request, status: 'completed' | 'cancelled'): Request {
  const ended: Request = {
    ...unowned(request),
    status,
    heldStatus: null,
    order: null,
    isHoldOver: false,
    retryCount: 0,
    hasError: false,
    isBlocked: false,
    nextAttempt: 'none',
    isOver: true,
  };
  return log(ended, status);
}

// --- The engine

/**
 * One handler call by the engine, made of the operations above: claim, transition, start, handler, save, transition, release.
 * @param during - what others do while the handler runs.
 * @param onHandler - told of the world in which the handler starts, where one does.
 */
export function run(
  before: World,
  outcome: Outcome,
  during: readonly ((world: World) => World)[],
  onHandler: (world: World) => void = () => undefined,
): Step<World> {
  const inWorld = (world: World, { state, answer, writes }: Step<Request>): Step<World> => ({
    state: { ...world, request: state },
    answer,
    writes,
  });
  if (hasEnded(before.request)) return inWorld(before, refused(before.request, `ended ${before.request.status}`));
  const claimed = claim(before.request, ENGINE);
  if (!claimed.writes) return inWorld(before, claimed);
  const who = { owner: ENGINE, generation: claimed.state.generation };
  const moved = transition(claimed.state, who, null, true);
  if (!moved.answer.startsWith('current')) return inWorld(before, moved);
  const at = moved.state.stages.length - 1;
  const begun = moved.state.stages.length > claimed.state.stages.length;
  const started = begun ? moved : start(moved.state, who.owner, who.generation, at);
  const atHandler: World = { ...before, request: started.state };
  onHandler(atHandler);
  const world = during.reduce<World>((now, act) => act(now), atHandler);
  const saved = save(world.request, who.owner, who.generation, at, outcome);
  // EX-15: a worker that meets a refusal says so in the log of events, and touches nothing else.
  if (saved.answer === 'stale') return inWorld(world, wrote(log(world.request, 'stale_write_refused'), 'LEASE_LOST'));
  if (saved.answer.startsWith('released')) {
    return inWorld(world, wrote(saved.state, saved.answer.replace('released', 'waiting')));
  }
  const next = transition(saved.state, who, at, false);
  if (!next.answer.startsWith('current')) return inWorld(world, next);
  return inWorld(world, wrote(unowned(next.state), 'budget'));
}
