/**
 * The transition of an owner that has just saved an outcome, in one statement. What it decides from is what the database told
 * it last under the same lease, and nobody else writes stages under that: so nothing is locked or read for the decision, and
 * the statement that applies it makes sure that it still holds. Six statements become one for every stage but the first.
 */
import type { Database, Queries } from '../storage/database.js';
import { applyMoves, type MoveToApply } from './apply-moves.js';
import { endingOf, planMove, resultOf, type TransitionResult, type TransitionRules } from './move.js';
import type { Lease } from './request.js';
import type { SaveResult } from './save-outcomes.js';
import type { Snapshot } from './snapshot.js';

export interface GoOnItem {
  readonly lease: Lease;
  /** The stage whose outcome was saved as completed. */
  readonly stageId: string;
  /** With the outcome as it was saved. No order stood. */
  readonly known: Snapshot;
  readonly begins: boolean;
}

/** What a transition left, with the outcome that was saved since. */
export function withSaved(snapshot: Snapshot, stageId: string, { at, metadata_json }: SaveResult): Snapshot {
  const stages = snapshot.stages.map((row): Snapshot['stages'][number] => {
    return row.id === stageId ? { ...row, status: 'completed', finished_at: at, metadata_json } : row;
  });
  return { ...snapshot, now: at, stages };
}

/**
 * A request that is missing from the answer has an order by now, another inventory or another owner, or its saved history
 * does not lead on: `transition` finds out, with the request locked.
 */
export async function goOn(
  database: Database,
  items: readonly GoOnItem[],
  rules: TransitionRules,
): Promise<ReadonlyMap<string, TransitionResult>> {
  const moves = items.flatMap((item) => decide(item, rules));
  const isEnd = moves.some(({ move }) => move.kind === 'end');
  const applied = isEnd
    ? await database.transaction((tx) => applyWithEnds(tx, moves, rules))
    : await applyMoves(database, moves);
  const done = moves.filter(({ move }) => applied.has(move.snapshot.request.id));
  return new Map(done.map(({ move }) => [move.snapshot.request.id, resultOf(move)]));
}

function decide({ lease, stageId, known, begins }: GoOnItem, rules: TransitionRules): MoveToApply[] {
  const current = known.stages.find(({ id, is_current }) => is_current && id === stageId);
  if (current?.status !== 'completed') return [];
  try {
    return [{ move: planMove(known, current, rules.decide(known), begins), lease }];
  } catch {
    // What does not fit is found again, and said, with the request locked.
    return [];
  }
}

async function applyWithEnds(
  tx: Queries,
  moves: readonly MoveToApply[],
  rules: TransitionRules,
): Promise<ReadonlySet<string>> {
  const applied = await applyMoves(tx, moves);
  const endings = moves.flatMap(({ move }) => (applied.has(move.snapshot.request.id) ? endingOf(move) : []));
  if (endings.length > 0) await rules.end?.(tx, endings);
  return applied;
}
