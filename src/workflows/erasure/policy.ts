/** Decides the next stage of an erasure: gate, revoke and erase visits, settle, seal; ungate after a cancel. */
import { HistoryError, type StageRecord } from '../../engine/history.js';
import type { Policy, PolicyInput } from '../../engine/workflow.js';
import type { Wait } from '../../requests/decision.js';
import { type VisitStage, visitState, type VisitState } from './coverage.js';
import type { ErasureInventory } from './inventory.js';

type Decided = ReturnType<Policy['decide']>;

const VISITS: readonly string[] = ['revoke', 'erase', 'settle'] satisfies VisitStage[];
const STAGES: readonly string[] = ['gate', ...VISITS, 'seal', 'ungate'];

export const erasurePolicy: Policy = {
  decide(input) {
    checkHistory(input);
    const last = input.history.at(-1);
    if (last === undefined) return input.isCancelled ? cancelled() : enter('gate', null, 'begin');
    if (last.stage === 'ungate' && last.result?.['cancelled'] !== true) return cancelled();
    if (last.result?.['cancelled'] === true || (input.isCancelled && isCancellable(input.history))) {
      return hasGate(input.history) ? enter('ungate', null, 'cancel') : cancelled();
    }
    if (last.stage === 'seal') return { kind: 'end', status: 'completed', transition: { decision: 'completed' } };
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

function decideVisits(input: PolicyInput): Decided {
  const inventory = input.inventory as unknown as ErasureInventory;
  const state = (stage: VisitStage, target: string) => visitState(input.history, stage, target, input.unblockedAt);
  const revokes = inventory.targets
    .filter((target) => target.revokes)
    .map(({ name }) => ({ stage: 'revoke' as const, target: name, state: state('revoke', name) }));
  const unrevoked = new Set(revokes.filter((visit) => visit.state.kind !== 'done').map(({ target }) => target));
  // Access ends everywhere before anything is wiped; a target that is down is revoked before its own erase (WF-13).
  const erases = inventory.targets
    .filter(({ name }) => !unrevoked.has(name))
    .map(({ name }) => ({ stage: 'erase' as const, target: name, state: state('erase', name) }));
  const open = [...revokes, ...erases].filter((visit) => visit.state.kind !== 'done');
  if (open.length > 0) return nextVisit(open, input);
  return decideSettle(input, inventory);
}

function decideSettle(input: PolicyInput, inventory: ErasureInventory): Decided {
  const marked = input.history.find(({ stage, place }) => stage === 'settle' && place === null);
  if (marked === undefined) return enter('settle', null, 'erased');
  const visits = inventory.targets.map(({ name }) => ({
    stage: 'settle' as const,
    target: name,
    state: visitState(input.history, 'settle', name, input.unblockedAt),
  }));
  const open = visits.filter((visit) => visit.state.kind !== 'done');
  if (open.length === 0) return enter('seal', null, 'settled');
  const due = new Date((marked.finishedAt?.getTime() ?? 0) + inventory.settle_seconds * 1000);
  const [first] = open;
  if (first !== undefined && input.now < due) {
    const wait: Wait = { status: 'waiting', until: due, why: 'SETTLING: the longest message age has to pass' };
    return { ...enter('settle', first.target, 'visit'), wait };
  }
  return nextVisit(open, input);
}

interface Visit {
  readonly stage: VisitStage;
  readonly target: string;
  readonly state: VisitState;
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
  if (next !== undefined && next.state.until <= input.now) return enter(next.stage, next.target, 'visit');
  // A revision that needs approval is asked for when there is nothing else to do; the gate makes it.
  if (open.some(({ state }) => state.kind === 'drift')) return enter('gate', null, 'drift');
  if (next !== undefined) {
    const failed = waiting.find(({ state }) => state.kind === 'failed');
    const named = failed ?? next;
    const status = failed === undefined ? 'waiting' : 'retry_wait';
    const why = `${named.target}: ${named.state.why}`;
    return { ...enter(next.stage, next.target, 'visit'), wait: { status, until: next.state.until, why } };
  }
  const blocked = open[0] as Visit;
  const why = open.map(({ target, state }) => `${target}: ${'why' in state ? state.why : ''}`).join('; ');
  return { ...enter(blocked.stage, blocked.target, 'visit'), wait: { status: 'blocked', until: null, why } };
}

function enter(stage: string, target: string | null, decision: string): Extract<Decided, { kind: 'enter' }> {
  return { kind: 'enter', stage, place: target, inputs: { target }, transition: { decision, target } };
}

function cancelled(): Decided {
  return { kind: 'end', status: 'cancelled', transition: { decision: 'cancelled' } };
}

/** Every saved row against the rules, before anything is decided from it (EX-10, EX-11). */
function checkHistory(input: PolicyInput): void {
  let isGated = false;
  for (const record of input.history) {
    const { stage, place } = record;
    if (!STAGES.includes(stage))
      throw new HistoryError(record.id, `is of a stage, ${stage}, that erasures do not have`);
    if ((record.inputs['target'] ?? null) !== place)
      throw new HistoryError(record.id, 'has another target in its inputs than in its column');
    if (place !== null && !targetNames(record).includes(place)) {
      throw new HistoryError(record.id, 'visits a target that the approved inventory does not have');
    }
    const isVisit = VISITS.includes(stage) && !(stage === 'settle' && place === null);
    if (isVisit !== (place !== null))
      throw new HistoryError(record.id, 'has a target where its stage has none, or none where it needs one');
    if (isVisit && !isGated) throw new HistoryError(record.id, 'visits a target before the gate');
    if (stage === 'gate' && record.status === 'completed') isGated = true;
    if (isVisit && record.result !== undefined) visitState([record], stage as VisitStage, place as string, null);
  }
}

function targetNames(record: StageRecord): readonly string[] {
  return (record.inventory as unknown as ErasureInventory).targets.map(({ name }) => name);
}
