/** Rebuilds the history of a request by its chain of ids, never by timestamps or the order of ids (EX-9, EX-11). */
import type { JsonObject, JsonValue } from '../storage/json.js';
import type { StageRow } from '../requests/request.js';
import { RecordIntegrityError } from '../requests/request-error.js';
import { LONGEST_HISTORY, type Snapshot } from '../requests/snapshot.js';

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

/**
 * The history of a request that has not ended.
 * @throws RecordIntegrityError that names the row which does not fit, or says that there are too many of them (EX-12).
 */
export function rebuildHistory(snapshot: Snapshot): readonly StageRecord[] {
  const { request, stages } = snapshot;
  if (stages.length > LONGEST_HISTORY) throw tooLong(request.id);
  stages.forEach(checkShape);
  const chain = follow(stages);
  for (const [index, row] of chain.entries()) checkRow(row, chain[index + 1]);
  const inventories = new Map(snapshot.inventories.map((row) => [row.inventory_digest, row.inventory]));
  return chain.map((row) => record(row, inventories));
}

/** What is said where a request has reached, or would reach, more stages than the record follows. */
export function tooLong(requestId: string): RecordIntegrityError {
  return new RecordIntegrityError(
    `Request ${requestId} needs more than ${LONGEST_HISTORY} stages, which are the most: look at what it repeats with expunge show.`,
    requestId,
  );
}

/** The rows in the order of their chain; those that are not connected with it come last. For reading: it checks nothing. */
export function inChainOrder(stages: readonly StageRow[]): readonly StageRow[] {
  const previous = (row: StageRow): string | null =>
    (row.metadata_json as Partial<StageRow['metadata_json']> | null)?.previous_stage_id ?? null;
  const successors = new Map(stages.map((row) => [previous(row), row]));
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

/** Anybody with SQL may have written the column: what is read from it below is there. */
function checkShape(row: StageRow): void {
  const metadata: unknown = row.metadata_json;
  if (!isObject(metadata)) throw misfit(row, 'has metadata that is no object');
  if (!isObject(metadata['inputs'])) throw misfit(row, 'has no inputs');
  const previous = metadata['previous_stage_id'];
  if (previous !== null && typeof previous !== 'string') throw misfit(row, 'does not say which stage came before it');
  for (const part of ['result', 'transition'] as const) {
    if (part in metadata && !isObject(metadata[part])) throw misfit(row, `has a ${part} that is no object`);
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function follow(stages: readonly StageRow[]): readonly StageRow[] {
  const successors = new Map<string | null, StageRow>();
  for (const row of stages) {
    const previous = row.metadata_json.previous_stage_id;
    const rival = successors.get(previous);
    if (rival !== undefined) throw misfit(row, `has the same previous stage as ${rival.id}`);
    successors.set(previous, row);
  }
  const chain: StageRow[] = [];
  // Each row has one predecessor, so that a walk from the first never comes to a row twice.
  for (let row = successors.get(null); row !== undefined; row = successors.get(row.id)) chain.push(row);
  if (chain.length < stages.length) throw unreached(stages, new Set(chain));
  return chain;
}

/** Names the row where what hangs together apart from the first stage begins, or one that it goes round in. */
function unreached(stages: readonly StageRow[], reached: ReadonlySet<StageRow>): RecordIntegrityError {
  const byId = new Map(stages.map((row) => [row.id, row]));
  const seen = new Set<StageRow>();
  let row = stages.find((candidate) => !reached.has(candidate)) as StageRow;
  while (!seen.has(row)) {
    seen.add(row);
    const previous = byId.get(row.metadata_json.previous_stage_id ?? '');
    if (previous === undefined) return misfit(row, 'is not connected with the first stage');
    row = previous;
  }
  return misfit(row, 'is part of a circle');
}

function checkRow(row: StageRow, next: StageRow | undefined): void {
  const { result, transition } = row.metadata_json;
  const isLast = next === undefined;
  if (row.is_current !== isLast)
    throw misfit(row, isLast ? 'is the last and not current' : 'is current and not the last');
  if (row.status === 'completed' && result === undefined) throw misfit(row, 'is completed and has no result');
  if (isLast) {
    if (transition !== undefined) throw misfit(row, 'is current and has a decision that it was left by');
    return;
  }
  if (row.status !== 'completed') throw misfit(row, `is ${row.status} and was left`);
  if (transition === undefined) throw misfit(row, 'was left and has no decision');
  const saved = transition['next'];
  const fits =
    isObject(saved) && saved['stage'] === next.stage && (saved['place'] ?? null) === next.target_community_id;
  if (!fits) throw misfit(row, 'has a decision that is not what followed');
}

function record(row: StageRow, inventories: ReadonlyMap<unknown, JsonObject>): StageRecord {
  const { inputs, intent, cursor, result, transition } = row.metadata_json;
  const inventory = inventories.get(inputs['inventory_digest']);
  if (inventory === undefined) throw misfit(row, 'names an inventory that the request does not have');
  return {
    id: row.id,
    stage: row.stage,
    place: row.target_community_id,
    status: row.status,
    inputs,
    inventory,
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
