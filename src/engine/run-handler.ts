/** Calls one handler for the requests that stand at its stage, and sorts what came of it. */
import { describeError } from '../observe/describe-error.js';
import { isExpungeError } from '../observe/expunge-error.js';
import { reach } from '../requests/reach.js';
import { RecordIntegrityError } from '../requests/request-error.js';
import type { Lease, StageRow } from '../requests/request.js';
import type { SavedOutcome } from '../requests/save-outcomes.js';
import { type Progress, type ProgressResult, saveProgress } from '../requests/save-progress.js';
import type { Snapshot } from '../requests/snapshot.js';
import type { Database } from '../storage/database.js';
import { storableText } from '../storage/storable.js';
import { faultOf, sendAgain } from './database-fault.js';
import { HandlerScope } from './handler-scope.js';
import { rebuildHistory } from './history.js';
import type { LeaseKeeper } from './lease-keeper.js';
import type { Commit, HandlerContext, Outcome, StageProgress, StageRun, Workflow } from './workflow.js';

export interface StageToRun {
  readonly lease: Lease;
  /** Handler calls that this run has made for the request, this one included. */
  readonly calls: number;
  readonly stage: StageRow;
  readonly snapshot: Snapshot;
  /** What its handler has saved since: a group that failed is called again in halves, and these go on from there. */
  readonly saved: { progress: StageProgress };
}

export interface FinishedStage extends StageToRun {
  readonly outcome: SavedOutcome;
}

export interface HandlerResult {
  readonly finished: readonly FinishedStage[];
  /** An order stands: the transition acts on it. */
  readonly ordered: readonly StageToRun[];
  readonly lost: readonly StageToRun[];
  /** The process is to stop, and the handler said nothing for these. */
  readonly interrupted: readonly StageToRun[];
  readonly commit?: Commit;
}

export interface HandlerEnvironment {
  readonly database: Database;
  readonly keeper: LeaseKeeper;
  readonly signal: AbortSignal;
}

/**
 * Nothing is begun for a request whose lease is lost, nor once the process is to stop: a group that failed is called again
 * in halves, and either may have happened since.
 * @throws what the handler throws.
 */
export async function runHandler(
  group: readonly StageToRun[],
  workflow: Workflow,
  environment: HandlerEnvironment,
): Promise<HandlerResult> {
  const { keeper, signal } = environment;
  if (signal.aborted) return { finished: [], ordered: [], lost: [], interrupted: group };
  const own = group.filter(({ lease }) => keeper.owns(lease));
  const lost = group.filter((item) => !own.includes(item));
  if (own.length === 0) return { finished: [], ordered: [], lost, interrupted: [] };
  const result = await callHandler(own, workflow, environment);
  return { ...result, lost: [...lost, ...result.lost] };
}

async function callHandler(
  group: readonly StageToRun[],
  workflow: Workflow,
  environment: HandlerEnvironment,
): Promise<HandlerResult> {
  const stopped = new Map<string, 'ordered' | 'lost'>();
  const stage = (group[0] as StageToRun).stage.stage;
  const handler = workflow.handlers[stage];
  // The rules have checked that it exists before they decided for this stage.
  if (handler === undefined) throw new Error(`Workflow ${workflow.name} has no handler for ${stage}.`);
  const leases = group.map(({ lease }) => lease);
  const scope = new HandlerScope(environment.signal, (onAllLost) => environment.keeper.watch(leases, onAllLost));
  try {
    const answer = await handler(group.map(runOf), contextFor(group, environment, scope.signal, stopped));
    const sorted = {
      finished: [] as FinishedStage[],
      ordered: [] as StageToRun[],
      lost: [] as StageToRun[],
      interrupted: [] as StageToRun[],
    };
    for (const item of group) {
      const { requestId } = item.lease;
      const outcome = answer.outcomes.get(requestId);
      const stop = stopped.get(requestId);
      if (stop !== undefined) sorted[stop].push(item);
      else if (outcome !== undefined)
        sorted.finished.push({ ...item, outcome: asSaved(workflow, item.stage, outcome) });
      else if (environment.signal.aborted) sorted.interrupted.push(item);
      else sorted.finished.push({ ...item, outcome: asSaved(workflow, item.stage, forgotten(stage)) });
    }
    return answer.commit === undefined ? sorted : { ...sorted, commit: answer.commit };
  } finally {
    scope.close();
  }
}

/**
 * The same, and once more where the handler lost a connection to the database that is there again: what it has saved counts,
 * and it may run twice (EX-24). One connection that breaks is nobody's failure, whichever statement it was for.
 * @throws what the handler throws; DatabaseUnavailableError where Expunge's own database is away.
 */
export async function runHandlerAgain(
  group: readonly StageToRun[],
  workflow: Workflow,
  environment: HandlerEnvironment,
): Promise<HandlerResult> {
  try {
    return await runHandler(group, workflow, environment);
  } catch (error) {
    if (faultOf(error) === 'rows') throw error;
    await reach(environment.database);
    return await runHandler(group, workflow, environment);
  }
}

/**
 * Whether what a handler threw is no request's fault: Expunge's own database is away. A handler may have lost the database
 * of a target or a fence instead, which looks the same and stops only the requests that need it.
 * @throws DatabaseUnavailableError where the own database does not answer now either.
 */
export async function isNobodysFault(error: unknown, database: Database): Promise<boolean> {
  if (isExpungeError(error, 'DATABASE_UNAVAILABLE')) await reach(database);
  return false;
}

function runOf({ stage: read, snapshot, saved }: StageToRun): StageRun {
  const stage = { ...read, metadata_json: { ...read.metadata_json, ...saved.progress } };
  const { request, inventories } = snapshot;
  const inventory = inventories.find(({ inventory_digest }) => inventory_digest === request.inventory_digest);
  if (inventory === undefined) {
    throw new RecordIntegrityError(
      `Request ${request.id} has no inventory of its digest: a person has to look.`,
      request.id,
    );
  }
  let history: StageRun['history'] | undefined;
  return {
    request,
    stage,
    inventory: inventory.inventory,
    /** Rebuilt when a handler asks for it: many never do. */
    get history() {
      history ??= rebuildHistory(snapshot).filter(({ id }) => id !== stage.id);
      return history;
    },
  };
}

function contextFor(
  group: readonly StageToRun[],
  { database, keeper }: HandlerEnvironment,
  signal: AbortSignal,
  stopped: Map<string, 'ordered' | 'lost'>,
): HandlerContext {
  const byId = new Map(group.map((item) => [item.lease.requestId, item]));
  const owns = (requestId: string): boolean => {
    const item = byId.get(requestId);
    return item !== undefined && !stopped.has(requestId) && keeper.owns(item.lease);
  };
  return {
    signal,
    owns,
    save: async (progress, commit) => {
      for (const id of progress.keys()) if (!stopped.has(id) && !owns(id)) stopped.set(id, 'lost');
      const rows = progressRows(progress, byId, stopped);
      if (rows.length === 0) return new Set();
      const results = await sendAgain(() => saveWith(database, rows, commit));
      for (const [id, result] of results) {
        const item = byId.get(id);
        if (result !== 'saved') stopped.set(id, result === 'ordered' ? 'ordered' : 'lost');
        else if (item !== undefined) item.saved.progress = { ...item.saved.progress, ...progress.get(id) };
      }
      return savedIds(results);
    },
  };
}

function saveWith(
  database: Database,
  rows: readonly Progress[],
  commit: Commit | undefined,
): Promise<ReadonlyMap<string, ProgressResult>> {
  if (commit === undefined) return saveProgress(database, rows);
  return database.transaction(async (tx) => {
    const results = await saveProgress(tx, rows);
    await commit(tx, savedIds(results));
    return results;
  });
}

function savedIds(results: ReadonlyMap<string, ProgressResult>): ReadonlySet<string> {
  return new Set([...results].filter(([, result]) => result === 'saved').map(([id]) => id));
}

function progressRows(
  progress: ReadonlyMap<string, StageProgress>,
  byId: ReadonlyMap<string, StageToRun>,
  stopped: ReadonlyMap<string, unknown>,
) {
  return [...progress].flatMap(([id, saved]) => {
    const item = byId.get(id);
    if (item === undefined || stopped.has(id)) return [];
    return [{ lease: item.lease, stageId: item.stage.id, ...saved }];
  });
}

/**
 * A visit that could not finish closes as completed, with what hindered it as its result: the policy goes on to the next
 * target and comes back. Every other stage stays current.
 */
function asSaved(workflow: Workflow, stage: StageRow, outcome: Outcome): SavedOutcome {
  const isVisit = workflow.visits.has(stage.stage) && stage.target_community_id !== null;
  if (outcome.kind === 'completed' || !isVisit) return outcome;
  switch (outcome.kind) {
    case 'postponed':
      return {
        kind: 'completed',
        result: { state: 'postponed', why: storableText(outcome.why) },
        delaySeconds: outcome.delaySeconds,
      };
    case 'failed': {
      const error = storableText(outcome.error);
      return { kind: 'completed', result: { state: 'failed', error, retryable: outcome.retryable } };
    }
    case 'revised':
      return outcome;
  }
}

/** How long a request waits whose handler found a database away that is not Expunge's own, in seconds. */
const AWAY_SECONDS = 5;

/** What is saved when a handler threw for a request alone. A database that is away is waited for: that is no failure. */
export function failureOutcome(workflow: Workflow, stage: StageRow, error: unknown): SavedOutcome {
  const { code, message } = describeError(error);
  const text = message.includes(code) ? message : `${code}: ${message}`;
  return asSaved(
    workflow,
    stage,
    faultOf(error) === 'rows'
      ? { kind: 'failed', error: text, retryable: true }
      : { kind: 'postponed', why: text, delaySeconds: AWAY_SECONDS },
  );
}

function forgotten(stage: string): Outcome {
  return {
    kind: 'failed',
    error: `HANDLER_FORGOT: the handler of ${stage} gave no answer for this request`,
    retryable: true,
  };
}
