/** How far each target has come, read from the saved visits. Pure. */
import { HistoryError, type StageRecord } from '../../engine/history.js';
import type { JsonObject } from '../../storage/json.js';
import type { ErasureInventory, InventoryTarget } from './inventory.js';

export const VISIT_STAGES = ['revoke', 'erase', 'settle'] as const;
export type VisitStage = (typeof VISIT_STAGES)[number];

/** Where one target stands with one kind of visit. */
export type VisitState =
  | { readonly kind: 'none' }
  | { readonly kind: 'done' }
  /** What is there is no longer what was approved: a new revision waits for approval when the others are done (WF-7). */
  | { readonly kind: 'drift' }
  | { readonly kind: 'postponed'; readonly until: Date; readonly why: string }
  | { readonly kind: 'failed'; readonly until: Date; readonly why: string }
  | { readonly kind: 'blocked'; readonly why: string };

/** The first retry of a target comes after 30 s; each further one takes twice as long, up to an hour. */
const FIRST_RETRY_MS = 30_000;
const LONGEST_RETRY_MS = 3_600_000;
/** So many failures in a row block a target until an operator unblocks its request. */
const FAILURES_THAT_BLOCK = 8;

/**
 * What was done under another plan of the target does not count: its plan may have places that nobody looked at then (WF-6).
 * @throws HistoryError where a visit has a result that visits do not have.
 */
export function visitState(
  history: readonly StageRecord[],
  stage: VisitStage,
  target: InventoryTarget,
  unblockedAt: Date | null,
): VisitState {
  const visits = history.filter(
    (record) =>
      record.stage === stage &&
      record.place === target.name &&
      record.result !== undefined &&
      planOfVisit(record) === target.plan_digest,
  );
  const last = visits.at(-1);
  if (last === undefined || last.result?.['cancelled'] === true) return { kind: 'none' };
  switch (visitResult(last)) {
    case 'done':
      return { kind: 'done' };
    case 'drift':
      return isGatedAgain(history, last) ? { kind: 'none' } : { kind: 'drift' };
    case 'postponed':
      return { kind: 'postponed', until: untilOf(last), why: text(last, 'why') };
    case 'failed':
      return failedState(visits, last, unblockedAt);
  }
}

/** Whether every target has been erased, and looked at again after that was marked in the registry. */
export function isSettled(history: readonly StageRecord[], inventory: JsonObject): boolean {
  const { targets } = inventory as unknown as ErasureInventory;
  const isDone = (stage: VisitStage) =>
    targets.every((target) => visitState(history, stage, target, null).kind === 'done');
  return isErased(history, inventory) && markAfterErase(history) !== null && isDone('settle');
}

/** Whether every target's erase was verified. */
export function isErased(history: readonly StageRecord[], inventory: JsonObject): boolean {
  const { targets } = inventory as unknown as ErasureInventory;
  return targets.every((target) => visitState(history, 'erase', target, null).kind === 'done');
}

/** The mark in the registry that every erase is verified; null where something was erased after it. */
export function markAfterErase(history: readonly StageRecord[]): StageRecord | null {
  const erased = history.findLastIndex(({ stage }) => stage === 'erase');
  return history.slice(erased + 1).findLast((record) => isMark(record) && record.result?.['state'] === 'done') ?? null;
}

export function isMark({ stage, place }: StageRecord): boolean {
  return stage === 'settle' && place === null;
}

/** @throws HistoryError */
export function visitResult(record: StageRecord): 'done' | 'drift' | 'postponed' | 'failed' {
  const state = record.result?.['state'];
  switch (state) {
    case 'done':
      // A visit that was begun before a revision says under which plan it was done.
      text(record, 'plan_digest');
      return state;
    case 'drift':
      if (record.stage === 'settle') throw new HistoryError(record.id, 'has drifted, where nothing is compared');
      return state;
    case 'postponed':
      untilOf(record);
      text(record, 'why');
      return state;
    case 'failed':
      text(record, 'error');
      return state;
    default:
      throw new HistoryError(record.id, 'is a visit without a known result');
  }
}

function planOfVisit({ inventory, place, result }: StageRecord): string | undefined {
  const own = result?.['plan_digest'];
  if (typeof own === 'string') return own;
  return (inventory as unknown as ErasureInventory).targets.find(({ name }) => name === place)?.plan_digest;
}

function failedState(visits: readonly StageRecord[], last: StageRecord, unblockedAt: Date | null): VisitState {
  const counted = visits.filter(
    ({ finishedAt }) => unblockedAt === null || (finishedAt !== null && finishedAt > unblockedAt),
  );
  if (!counted.includes(last)) return { kind: 'none' };
  const failures = counted.filter(({ result }) => result?.['state'] === 'failed').length;
  const why = text(last, 'error');
  if (last.result?.['retryable'] !== true || failures >= FAILURES_THAT_BLOCK) return { kind: 'blocked', why };
  const delay = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1));
  const finished = last.finishedAt ?? new Date(0);
  return { kind: 'failed', until: new Date(finished.getTime() + delay * spread(last.id, failures)), why };
}

/** What failed together should not come back together. Taken from the id, since a policy has no dice; the first is exact. */
function spread(id: string, failures: number): number {
  return failures === 1 ? 1 : 0.9 + (Number.parseInt(id.slice(-4), 16) / 0xffff) * 0.2;
}

/** Whether a gate has compared again what had drifted at this visit. */
function isGatedAgain(history: readonly StageRecord[], visit: StageRecord): boolean {
  const after = history.slice(history.indexOf(visit) + 1);
  return after.some(({ stage, status }) => stage === 'gate' && status === 'completed');
}

function untilOf(record: StageRecord): Date {
  const until = new Date(text(record, 'until'));
  if (Number.isNaN(until.getTime())) throw new HistoryError(record.id, 'was postponed until no time');
  return until;
}

function text(record: StageRecord, field: string): string {
  const value = record.result?.[field];
  if (typeof value !== 'string') throw new HistoryError(record.id, `has no ${field} in its result`);
  return value;
}
