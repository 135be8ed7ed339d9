/** Turns saved outcomes into next stages: transaction 2 of every stage (EX-3, EX-8). */
import type { Queries } from '../storage/database.js';
import { applyMoves } from './apply-moves.js';
import { endingOf, type Move, planMove, resultOf, type TransitionResult, type TransitionRules } from './move.js';
import type { Lease, StageRow } from './request.js';
import { RecordIntegrityError } from './request-error.js';
import { lockSnapshots, type LockedSnapshot } from './snapshot.js';

export interface TransitionItem {
  readonly requestId: string;
  /** Null for an operator's order, which needs the request to be free. */
  readonly lease: Lease | null;
  /** The stage whose saved outcome the caller knows of; null after a restart, when the database alone is the truth (EX-13). */
  readonly expectedStageId: string | null;
  /** Whether the owner runs the next stage at once: the statement that inserts it then marks it as running, too (EX-6). */
  readonly begins?: boolean;
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
  const applied = await applyMoves(
    tx,
    moves.map((move) => ({ move })),
  );
  if (applied.size !== moves.length) {
    // The parents are locked and the rows were read after that: this can only be a fault of the program.
    throw new Error('A transition met a stage that is no longer current although its request was locked.');
  }
  const endings = moves.flatMap(endingOf);
  if (endings.length > 0) await rules.end?.(tx, endings);
  for (const move of moves) results.set(move.snapshot.request.id, resultOf(move));
  return results;
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
    return { move: planMove(snapshot, current, rules.decide(snapshot), item.begins === true) };
  } catch (error) {
    return { result: { kind: 'error', error } };
  }
}

/** Whoever names the stage that it has finished is not given it to run again (EX-8). */
function requireCompleted(current: StageRow): void {
  if (current.status === 'completed') return;
  throw new RecordIntegrityError(
    `Stage ${current.id} (${current.stage}) was saved as completed and is ${current.status}: a person has to look at its request.`,
    current.request_id,
  );
}
