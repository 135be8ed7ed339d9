/** Decides the next stage of an erasure: gate, revoke and erase visits, settle, seal; ungate after a cancel. */
import type { StageRecord } from '../../engine/history.js';
import type { Policy, PolicyInput } from '../../engine/workflow.js';
import type { Wait } from '../../requests/decision.js';
import { checkHistory } from './check-history.js';
import { markAfterErase, type VisitStage, visitState, type VisitState } from './coverage.js';
import type { ErasureInventory, InventoryTarget } from './inventory.js';

type Decided = ReturnType<Policy['decide']>;

export const erasurePolicy: Policy = {
  decide(input) {
    checkHistory(input);
    const { history } = input;
    const last = history.at(-1);
    if (last === undefined) return input.isCancelled ? cancelled() : enter('gate', null, 'begin');
    const { stage, result } = last;
    if (stage === 'ungate' && result?.['cancelled'] !== true) return cancelled();
    if (result?.['cancelled'] === true || (input.isCancelled && isCancellable(history))) {
      return hasGate(history) ? enter('ungate', null, 'cancel') : cancelled();
    }
    if (stage === 'seal' && result?.['state'] === 'done') {
      return { kind: 'end', status: 'completed', transition: { decision: 'completed' } };
    }
    return decideVisits(input);
  },

  check: checkHistory,

  // Until the first erase intent (architecture.md). What was revoked stays revoked.
  mayCancel: ({ history }) => isCancellable(history),
};

function isCancellable(history: readonly StageRecord[]): boolean {
  return !history.some(({ stage, intent }) => stage === 'ungate' || (stage === 'erase' && intent !== undefined));
}

/** Whether a gate has begun: only then is there something to undo. */
function hasGate(history: readonly StageRecord[]): boolean {
  return history.some(({ stage, intent }) => stage === 'gate' && intent !== undefined);
}

interface Visit {
  readonly stage: VisitStage;
  readonly target: string;
  readonly state: VisitState;
}

function visitsOf(input: PolicyInput, stage: VisitStage, targets: readonly InventoryTarget[]): readonly Visit[] {
  return targets.map((target) => ({
    stage,
    target: target.name,
    state: visitState(input.history, stage, target, input.unblockedAt),
  }));
}

function decideVisits(input: PolicyInput): Decided {
  const inventory = input.inventory as unknown as ErasureInventory;
  const { targets } = inventory;
  const revokes = visitsOf(
    input,
    'revoke',
    targets.filter((target) => target.revokes),
  ).filter(isOpen);
  // Access ends everywhere before anything is wiped; a target that is down is revoked before its own erase (WF-13).
  const unrevoked = new Set(revokes.map(({ target }) => target));
  const erases = visitsOf(
    input,
    'erase',
    targets.filter(({ name }) => !unrevoked.has(name)),
  ).filter(isOpen);
  if (revokes.length + erases.length > 0) return nextVisit([...revokes, ...erases], input);
  return decideSettle(input, inventory);
}

function decideSettle(input: PolicyInput, inventory: ErasureInventory): Decided {
  const marked = markAfterErase(input.history);
  if (marked === null) return enter('settle', null, 'erased');
  const open = visitsOf(input, 'settle', inventory.targets).filter(isOpen);
  const [first] = open;
  if (first === undefined) return enter('seal', null, 'settled');
  const due = new Date((marked.finishedAt?.getTime() ?? 0) + inventory.settle_seconds * 1000);
  if (input.now < due) {
    const wait: Wait = { status: 'waiting', until: due, why: 'SETTLING: the longest message age has to pass' };
    return { ...enter('settle', first.target, 'visit'), wait };
  }
  return nextVisit(open, input);
}

function isOpen({ state }: Visit): boolean {
  return state.kind !== 'done';
}

/**
 * Targets that were not visited yet come first, in the order of the inventory; then those whose time has come. Only when
 * nothing but unfinished targets is left does the request wait, with its next visit pending.
 */
function nextVisit(open: readonly Visit[], input: PolicyInput): Decided {
  const fresh = open.find(({ state }) => state.kind === 'none');
  if (fresh !== undefined) return enter(fresh.stage, fresh.target, 'visit');
  const waiting = open.flatMap((visit) => ('until' in visit.state ? [{ ...visit, state: visit.state }] : []));
  const [next] = waiting.toSorted((one, other) => one.state.until.getTime() - other.state.until.getTime());
  if (next !== undefined) {
    const { until } = next.state;
    const visit = enter(next.stage, next.target, 'visit');
    if (until <= input.now) return visit;
    const status = waiting.some(({ state }) => state.kind === 'failed') ? 'retry_wait' : 'waiting';
    return { ...visit, wait: { status, until, why: reasons(open) } };
  }
  // While a request waits for a person no target of it is tried again: so this comes when the others are done or blocked.
  if (open.some(({ state }) => state.kind === 'drift')) return enter('gate', null, 'drift');
  const blocked = open[0] as Visit;
  return {
    ...enter(blocked.stage, blocked.target, 'visit'),
    wait: { status: 'blocked', until: null, why: reasons(open) },
  };
}

/** Failures first: the text may be cut where it is long. */
function reasons(open: readonly Visit[]): string {
  const rank = ({ state }: Visit): number => ['blocked', 'failed', 'postponed', 'drift'].indexOf(state.kind);
  return open
    .toSorted((one, other) => rank(one) - rank(other))
    .map(({ target, state }) => `${target}: ${'why' in state ? state.why : 'DRIFT: more is there than was approved'}`)
    .join('; ');
}

function enter(stage: string, target: string | null, decision: string): Extract<Decided, { kind: 'enter' }> {
  return { kind: 'enter', stage, place: target, inputs: { target }, transition: { decision, target } };
}

function cancelled(): Decided {
  return { kind: 'end', status: 'cancelled', transition: { decision: 'cancelled' } };
}
