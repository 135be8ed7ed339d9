/** Rebuilds the history of a request by its chain of ids, never by timestamps or the order of ids (EX-9, EX-11). */
import type { JsonObject, JsonValue } from '../storage/json.js';
import type { StageRow } from '../requests/request.js';
import { RecordIntegrityError } from '../requests/request-error.js';
import type { Snapshot } from '../requests/snapshot.js';

/** A request that has come this far is not advanced any more (EX-12). */
export const LONGEST_HISTORY = 10_000;

/** One stage of the past, as plain values. */
export interface StageRecord {
  readonly id: string;
  readonly stage: string;
  readonly place: string | null;
  readonly status: StageRow['status'];
  readonly inputs: JsonObject;
  /** The inventory under which it was created. */
  readonly inventory: JsonObject;
  readonly intent: JsonValue | undefined;
  readonly cursor: JsonValue | undefined;
  readonly result: JsonObject | undefined;
  /** What was decided afterwards; undefined on the current stage. */
  readonly transition: JsonObject | undefined;
  readonly finishedAt: Date | null;
}

/** @throws RecordIntegrityError that names the row which does not fit. */
export function rebuildHistory(snapshot: Snapshot): readonly StageRecord[] {
  const { request, stages } = snapshot;
  if (stages.length > LONGEST_HISTORY) {
    throw new RecordIntegrityError(
      `Request ${request.id} has ${stages.length} stages, and ${LONGEST_HISTORY} are the most: look at what it repeats with expunge show.`,
      request.id,
    );
  }
  const chain = follow(snapshot);
  const last = chain.at(-1);
  for (const [index, row] of chain.entries()) checkRow(row, chain[index + 1], row === last);
  return chain.map((row) => record(row, snapshot));
}

/** The rows in the order of their chain; those that are not connected with it come last. For reading: it checks nothing. */
export function inChainOrder(stages: readonly StageRow[]): readonly StageRow[] {
  const successors = new Map(stages.map((row) => [row.metadata_json.previous_stage_id ?? null, row]));
  const chain: StageRow[] = [];
  for (
    let row = successors.get(null);
    row !== undefined && chain.length < stages.length;
    row = successors.get(row.id)
  ) {
    chain.push(row);
  }
  const connected = new Set(chain);
  return [...chain, ...stages.filter((row) => !connected.has(row))];
}

function follow(snapshot: Snapshot): readonly StageRow[] {
  const { stages } = snapshot;
  const successors = new Map<string | null, StageRow>();
  for (const row of stages) {
    const previous = row.metadata_json.previous_stage_id ?? null;
    const rival = successors.get(previous);
    if (rival !== undefined) throw misfit(row, `has the same previous stage as ${rival.id}`);
    successors.set(previous, row);
  }
  const chain: StageRow[] = [];
  for (let row = successors.get(null); row !== undefined; row = successors.get(row.id)) {
    chain.push(row);
    if (chain.length > stages.length) throw misfit(row, 'is part of a circle');
  }
  const reached = new Set(chain);
  const lost = stages.find((row) => !reached.has(row));
  if (lost !== undefined) throw misfit(lost, 'is not connected with the first stage');
  return chain;
}

function checkRow(row: StageRow, next: StageRow | undefined, isLast: boolean): void {
  const { result, transition } = row.metadata_json;
  if (row.is_current !== isLast)
    throw misfit(row, isLast ? 'is the last and not current' : 'is current and not the last');
  if (row.status === 'completed' && result === undefined) throw misfit(row, 'is completed and has no result');
  if (isLast) return;
  if (row.status !== 'completed') throw misfit(row, `is ${row.status} and was left`);
  if (transition === undefined) throw misfit(row, 'was left and has no decision');
  const saved = transition['next'] as { stage?: unknown; place?: unknown } | null | undefined;
  if (saved?.stage !== next?.stage || (saved?.place ?? null) !== (next?.target_community_id ?? null)) {
    throw misfit(row, 'has a decision that is not what followed');
  }
}

function record(row: StageRow, snapshot: Snapshot): StageRecord {
  const { inputs, intent, cursor, result, transition } = row.metadata_json;
  const digest = inputs['inventory_digest'];
  const revision = snapshot.inventories.find((inventory) => inventory.inventory_digest === digest);
  if (revision === undefined) throw misfit(row, 'names an inventory that the request does not have');
  return {
    id: row.id,
    stage: row.stage,
    place: row.target_community_id,
    status: row.status,
    inputs,
    inventory: revision.inventory,
    intent,
    cursor,
    result,
    transition,
    finishedAt: row.finished_at,
  };
}

function misfit(row: StageRow, what: string): RecordIntegrityError {
  return new RecordIntegrityError(
    `Stage ${row.id} (${row.stage}) ${what}: a person has to look at its request.`,
    row.request_id,
  );
}

/** For policies: a saved row that their rules do not allow. */
export class HistoryError extends Error {
  readonly stageId: string;
  constructor(stageId: string, what: string) {
    super(what);
    this.name = 'HistoryError';
    this.stageId = stageId;
  }
}
