/** Takes claimed requests as far as they go: transition, handler, save, and again. */
import { type Counters, counters as processCounters } from '../observe/counters.js';
import { describeError } from '../observe/describe-error.js';
import type { Log } from '../observe/log.js';
import { block } from '../requests/block.js';
import { appendEvents } from '../requests/events.js';
import { release } from '../requests/release.js';
import { withSaved } from '../requests/go-on.js';
import type { TransitionResult } from '../requests/move.js';
import { LeaseLostError } from '../requests/request-error.js';
import type { Lease, RequestStatus, StageRow } from '../requests/request.js';
import { type OutcomeToSave, saveOutcomes, type SaveResult } from '../requests/save-outcomes.js';
import type { Snapshot } from '../requests/snapshot.js';
import { type StartResult, startStages } from '../requests/start-stages.js';
import type { Database } from '../storage/database.js';
import { bisect, bisectStatement } from './bisect.js';
import { faultOf, sendAgain } from './database-fault.js';
import type { LeaseKeeper } from './lease-keeper.js';
import { type Failure, moveOn, type Position } from './move-on.js';
import { isUnregistered, type RegisteredWorkflows } from './registered-workflows.js';
import { failureOutcome, type FinishedStage, isNobodysFault, runHandlerAgain, type StageToRun } from './run-handler.js';
import type { Commit } from './workflow.js';

/** How the work on one request ended. Ownership has been given back, unless it was lost. */
export type RunEnd =
  | { readonly kind: 'ended'; readonly status: 'completed' | 'cancelled' }
  /** It goes on later, by itself or after an order or approval. */
  | {
      readonly kind: 'waiting';
      readonly status: RequestStatus;
      readonly until: Date | null;
      readonly why: string | null;
    }
  /** As many handler calls as allowed were made; the last one's transition is committed. */
  | { readonly kind: 'budget'; readonly stage: string; readonly place: string | null }
  /** The process is to stop; the row stays current. */
  | { readonly kind: 'interrupted' }
  | { readonly kind: 'error'; readonly error: unknown };

/** For whoever watches. */
export interface RunObserver {
  stageStarted?(stage: StageRow): void;
  stageSaved?(stage: StageRow, result: OutcomeToSave['outcome']): void;
}

export interface AdvanceOptions {
  readonly database: Database;
  readonly workflows: RegisteredWorkflows;
  readonly keeper: LeaseKeeper;
  readonly log: Log;
  /** The process's own by default. */
  readonly counters?: Counters;
  readonly signal: AbortSignal;
  /** Handler calls per request. */
  readonly budget: number;
  /** A request whose rows do not fit is blocked (a worker would meet it again and again) or left as it is. */
  readonly onMisfit: 'block' | 'leave';
  /** Told of a request of an unknown version before ownership of it is given back. */
  readonly onUnregistered?: (requestId: string) => void;
  readonly observer?: RunObserver;
}

type Operation = 'transition' | 'start' | 'progress' | 'save' | 'block';

/**
 * Returns when no handler runs any more, also where it throws: then it keeps no lease, and gives back those that it can.
 * @throws DatabaseUnavailableError, and whatever else says that the database can write nothing at present.
 */
export async function advance(leases: readonly Lease[], options: AdvanceOptions): Promise<ReadonlyMap<string, RunEnd>> {
  const run = new Advance(options);
  try {
    return await run.run(leases);
  } catch (error) {
    // Kept by nobody, they expire. To give them back takes a database that answers.
    options.keeper.drop(leases);
    if (faultOf(error) !== 'database') await release(options.database, leases).catch(() => undefined);
    throw error;
  }
}

class Advance {
  readonly #options: AdvanceOptions;
  readonly #counters: Counters;
  readonly #ends = new Map<string, RunEnd>();
  #positions: Position[] = [];

  constructor(options: AdvanceOptions) {
    this.#options = options;
    this.#counters = options.counters ?? processCounters;
  }

  async run(leases: readonly Lease[]): Promise<ReadonlyMap<string, RunEnd>> {
    this.#positions = leases.map((lease) => ({ lease, expectedStageId: null, calls: 0 }));
    const { signal } = this.#options;
    while (this.#positions.length > 0 && !signal.aborted) {
      const toRun = await this.#transition();
      if (this.#options.signal.aborted) {
        this.#positions = toRun.map(({ position }) => position);
        break;
      }
      this.#positions = [];
      await this.#runStages(await this.#start(toRun));
    }
    await this.#giveBack(this.#positions.map(({ lease }) => ({ lease, end: { kind: 'interrupted' } })));
    return this.#ends;
  }

  /** Transaction 2 for every position; returns the stages that are to be run now. */
  async #transition(): Promise<readonly StageToStart[]> {
    const positions = this.#owned();
    const byId = new Map(positions.map((position) => [position.lease.requestId, position]));
    const { results, failed } = await moveOn(positions, this.#options);
    await this.#block(failed);
    return this.#settle([...results].map(([id, result]) => ({ position: byId.get(id) as Position, result })));
  }

  /** Ends what goes no further now, many at once, and returns the rest. */
  async #settle(moved: readonly Moved[]): Promise<readonly StageToStart[]> {
    const toRun: StageToStart[] = [];
    const lost: Lease[] = [];
    const misfits: Failure[] = [];
    const back: GivenBack[] = [];
    for (const { position, result } of moved) {
      const { lease, calls } = position;
      if (result.kind === 'ended' || result.kind === 'waiting') this.#end(lease, result);
      else if (result.kind === 'stale') lost.push(lease);
      else if (result.kind === 'error') misfits.push({ lease, error: result.error });
      else if (calls < this.#options.budget) toRun.push({ position, ...result });
      else back.push({ lease, end: budgetEnd(result.stage) });
    }
    const blocks = this.#options.onMisfit === 'block';
    const leave = misfits.filter(({ error }) => !blocks || isUnregistered(error));
    for (const { lease, error } of leave) {
      if (isUnregistered(error)) this.#options.onUnregistered?.(lease.requestId);
    }
    await this.#lost('transition', lost);
    await this.#block(misfits.filter((misfit) => !leave.includes(misfit)));
    await this.#giveBack([...back, ...leave.map(({ lease, error }) => ({ lease, end: errorEnd(error) }))]);
    return toRun;
  }

  /** Marks the stages as running that are not yet. Those under an order go back to the transition, which acts on it. */
  async #start(stages: readonly StageToStart[]): Promise<readonly StageToRun[]> {
    const started = await this.#markStarted(stages.filter(({ begun }) => !begun));
    const running: StageToRun[] = [];
    const lost: Lease[] = [];
    for (const { position, stage, begun, snapshot } of stages) {
      const { lease, calls } = position;
      switch (begun ? 'started' : started.get(lease.requestId)) {
        case 'started':
          running.push({ lease, calls: calls + 1, stage, snapshot, saved: { progress: {} } });
          this.#options.observer?.stageStarted?.(stage);
          break;
        case 'ordered':
          this.#positions.push({ lease, expectedStageId: null, calls });
          break;
        default:
          lost.push(lease);
      }
    }
    await this.#lost('start', lost);
    return running;
  }

  async #markStarted(stages: readonly StageToStart[]): Promise<ReadonlyMap<string, StartResult>> {
    if (stages.length === 0) return new Map();
    const rows = stages.map(({ position, stage }) => ({ lease: position.lease, stageId: stage.id }));
    return sendAgain(() => startStages(this.#options.database, rows));
  }

  /**
   * Runs what stands at the same stage of the same place together, the groups side by side. Where one of them cannot go on,
   * the others are waited for all the same: ownership ends only when no handler runs.
   */
  async #runStages(stages: readonly StageToRun[]): Promise<void> {
    const groups = groupBy(stages, ({ stage, snapshot }) =>
      JSON.stringify([
        snapshot.request.workflow,
        snapshot.request.workflow_version,
        stage.stage,
        stage.target_community_id,
      ]),
    );
    const settled = await Promise.allSettled([...groups.values()].map((group) => this.#runGroup(group)));
    const failure = settled.find((result) => result.status === 'rejected');
    if (failure !== undefined) throw failure.reason;
  }

  async #runGroup(group: readonly StageToRun[]): Promise<void> {
    const { workflows, database, signal } = this.#options;
    const workflow = workflows.of((group[0] as StageToRun).snapshot.request);
    const { results, failed } = await bisect(
      group,
      (part) => runHandlerAgain(part, workflow, this.#options),
      (error) => isNobodysFault(error, database),
    );
    for (const answer of results) {
      answer.interrupted.forEach((item) => this.#interrupt(item));
      answer.ordered.forEach(({ lease, calls }) => this.#positions.push({ lease, expectedStageId: null, calls }));
      await this.#lost('progress', leasesOf(answer.lost));
      await this.#save(answer.finished, answer.commit);
    }
    if (signal.aborted) failed.forEach(({ item }) => this.#interrupt(item));
    else {
      await this.#save(
        failed.map(({ item, error }) => ({ ...item, outcome: failureOutcome(workflow, item.stage, error) })),
      );
    }
  }

  /** All of them stand at the same stage of the same workflow. */
  #countOutcomes(finished: readonly FinishedStage[]): void {
    for (const [outcome, items] of groupBy(finished, (item) => item.outcome.kind)) {
      const [{ stage, snapshot }] = items as readonly [FinishedStage];
      const { workflow } = snapshot.request;
      this.#counters.add('expunge_stages_total', { workflow, stage: stage.stage, outcome }, items.length);
    }
  }

  #interrupt({ lease, calls }: StageToRun): void {
    this.#positions.push({ lease, expectedStageId: null, calls });
  }

  /** Transaction 1, for many at once. */
  async #save(finished: readonly FinishedStage[], commit?: Commit): Promise<void> {
    const { keeper } = this.#options;
    const own = finished.filter(({ lease }) => keeper.owns(lease));
    const { results, failed } = await bisectStatement(own, (part) =>
      keeper.writing(leasesOf(part), () => this.#saveAll(part, commit)),
    );
    const saved = new Map(results.flatMap((map) => [...map]));
    const refused = new Set(failed.map(({ item }) => item));
    const lost = finished.filter((item) => !saved.has(item.lease.requestId) && !refused.has(item));
    await this.#block(failed.map(({ item, error }) => ({ lease: item.lease, error })));
    await this.#lost('save', leasesOf(lost));
    this.#countOutcomes(own.filter(({ lease }) => saved.has(lease.requestId)));
    for (const item of own) {
      const result = saved.get(item.lease.requestId);
      if (result !== undefined) this.#afterSave(item, result);
    }
  }

  async #saveAll(
    items: readonly FinishedStage[],
    commit: Commit | undefined,
  ): Promise<ReadonlyMap<string, SaveResult>> {
    const rows = items.map(({ lease, stage, outcome }) => ({ lease, stageId: stage.id, outcome }));
    const { database } = this.#options;
    if (commit === undefined) return saveOutcomes(database, rows);
    return database.transaction(async (tx) => {
      const saved = await saveOutcomes(tx, rows);
      await commit(tx, new Set(saved.keys()));
      return saved;
    });
  }

  #afterSave({ lease, stage, snapshot, calls, outcome }: FinishedStage, saved: SaveResult): void {
    const { workflow } = snapshot.request;
    this.#options.observer?.stageSaved?.(stage, outcome);
    if (!saved.released) {
      const known = saved.standing_order === null ? { known: withSaved(snapshot, stage.id, saved) } : {};
      this.#positions.push({ lease, expectedStageId: stage.id, calls, ...known });
      return;
    }
    if (saved.status === 'blocked')
      this.#counters.add('expunge_requests_blocked_total', { workflow, reason: 'failures' });
    const why = outcome.kind === 'failed' ? outcome.error : outcome.kind === 'completed' ? null : outcome.why;
    this.#end(lease, { kind: 'waiting', status: saved.status, until: saved.next_attempt_at, why });
  }

  /** Those whose lease still holds; the others end here, without a write. */
  #owned(): readonly Position[] {
    const { keeper } = this.#options;
    const own = this.#positions.filter(({ lease }) => keeper.owns(lease));
    for (const position of this.#positions) {
      if (!own.includes(position)) this.#end(position.lease, lostEnd(position.lease));
    }
    return own;
  }

  async #giveBack(items: readonly GivenBack[]): Promise<void> {
    const leases = items.map(({ lease }) => lease);
    // First, so that no renewal looks for them any more.
    this.#options.keeper.drop(leases);
    await sendAgain(() => release(this.#options.database, leases));
    for (const { lease, end } of items) this.#end(lease, end);
  }

  /** A stale owner's write was refused, or not even sent; the log says so, and nothing else is touched. */
  async #lost(operation: Operation, leases: readonly Lease[]): Promise<void> {
    if (leases.length === 0) return;
    const { database, keeper } = this.#options;
    keeper.lose(leases);
    await appendEvents(
      database,
      leases.map(({ requestId, owner, generation }) => ({
        request_id: requestId,
        event: 'stale_write_refused',
        actor: owner,
        detail: { operation, lease_generation: generation },
      })),
    );
    this.#counters.add('expunge_stale_writes_total', { operation }, leases.length);
    for (const lease of leases) this.#end(lease, lostEnd(lease));
  }

  async #block(failures: readonly Failure[]): Promise<void> {
    if (failures.length === 0) return;
    const { database, keeper, log } = this.#options;
    const blocks = failures.map(({ lease, error }) => ({ lease, reason: reasonOf(error) }));
    const blocked = await keeper.writing(leasesOf(failures), () => sendAgain(() => block(database, blocks)));
    const stopped = failures.filter(({ lease }) => blocked.has(lease.requestId));
    for (const { lease, error } of stopped) {
      const { code } = describeError(error);
      log.error('request_blocked', { requestId: lease.requestId, code });
      this.#counters.add('expunge_requests_blocked_total', { workflow: 'any', reason: code });
      this.#end(lease, errorEnd(error));
    }
    await this.#lost('block', leasesOf(failures.filter((failure) => !stopped.includes(failure))));
  }

  #end(lease: Lease, end: RunEnd): void {
    this.#options.keeper.drop([lease]);
    this.#ends.set(lease.requestId, end);
  }
}

interface StageToStart {
  readonly position: Position;
  readonly stage: StageRow;
  /** Whether the transition has marked it as running. */
  readonly begun: boolean;
  readonly snapshot: Snapshot;
}

interface Moved {
  readonly position: Position;
  readonly result: TransitionResult;
}

interface GivenBack {
  readonly lease: Lease;
  readonly end: RunEnd;
}

function leasesOf(items: readonly { readonly lease: Lease }[]): readonly Lease[] {
  return items.map(({ lease }) => lease);
}

function reasonOf(error: unknown): string {
  const { code, message } = describeError(error);
  return message.startsWith(code) ? message : `${code}: ${message}`;
}

function budgetEnd({ stage, target_community_id }: StageRow): RunEnd {
  return { kind: 'budget', stage, place: target_community_id };
}

function errorEnd(error: unknown): RunEnd {
  return { kind: 'error', error };
}

function lostEnd(lease: Lease): RunEnd {
  return errorEnd(new LeaseLostError(lease.requestId));
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
