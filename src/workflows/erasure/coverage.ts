/** How far each target has come, read from the saved visits. Pure. */
import { HistoryError, type StageRecord } from '../../engine/history.js';

export type VisitStage = 'revoke' | 'erase' | 'settle';

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

/** @throws HistoryError where a visit has a result that visits do not have. */
export function visitState(
  history: readonly StageRecord[],
  stage: VisitStage,
  target: string,
  unblockedAt: Date | null,
): VisitState {
  const visits = history.filter(
    (record) => record.stage === stage && record.place === target && record.result !== undefined,
  );
  const last = visits.at(-1);
  if (last === undefined || last.result?.['cancelled'] === true) return { kind: 'none' };
  const state = last.result?.['state'];
  switch (state) {
    case 'done':
      return { kind: 'done' };
    case 'drift':
      return isGatedAgain(history, last) ? { kind: 'none' } : { kind: 'drift' };
    case 'postponed':
      return { kind: 'postponed', until: untilOf(last), why: text(last, 'why') };
    case 'failed':
      return failedState(visits, last, unblockedAt);
    default:
      throw new HistoryError(last.id, 'is a visit without a known result');
  }
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
