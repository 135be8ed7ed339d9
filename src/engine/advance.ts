/** Takes claimed requests as far as they go: transition, handler, save, and again. */
import { describeError } from '../observe/describe-error.js';
import type { Log } from '../observe/log.js';
import { block } from '../requests/block.js';
import { appendEvents } from '../requests/events.js';
import { release } from '../requests/release.js';
import { LeaseLostError } from '../requests/request-error.js';
import type { Lease, RequestStatus, StageRow } from '../requests/request.js';
import { type OutcomeToSave, saveOutcomes, type SaveResult } from '../requests/save-outcomes.js';
import type { Snapshot } from '../requests/snapshot.js';
import { startStages } from '../requests/start-stages.js';
import { transition, type TransitionResult } from '../requests/transition.js';
import type { Database } from '../storage/database.js';
import { bisect } from './bisect.js';
import type { LeaseKeeper } from './lease-keeper.js';
import { isUnregistered, type RegisteredWorkflows } from './registered-workflows.js';
import { failureOutcome, type FinishedStage, runHandler, type StageToRun } from './run-handler.js';
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
  readonly signal: AbortSignal;
  /** Handler calls per request. */
  readonly budget: number;
  /** A request whose rows do not fit is blocked (a worker would meet it again and again) or left as it is. */
  readonly onMisfit: 'block' | 'leave';
  readonly observer?: RunObserver;
}

interface Position {
  readonly lease: Lease;
  readonly expectedStageId: string | null;
  readonly calls: number;
}

export async function advance(leases: readonly Lease[], options: AdvanceOptions): Promise<ReadonlyMap<string, RunEnd>> {
  const run = new Advance(options);
  return run.run(leases);
}

class Advance {
  readonly #options: AdvanceOptions;
  readonly #ends = new Map<string, RunEnd>();
  #positions: Position[] = [];

  constructor(options: AdvanceOptions) {
    this.#options = options;
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
    await this.#giveBack(
      this.#positions.map(({ lease }) => lease),
      { kind: 'interrupted' },
    );
    return this.#ends;
  }

  /** Transaction 2 for every position; returns the stages that are to be run now. */
  async #transition(): Promise<readonly StageToStart[]> {
    const positions = this.#owned();
    const byId = new Map(positions.map((position) => [position.lease.requestId, position]));
    const { database, workflows } = this.#options;
    const items = positions.map(({ lease, expectedStageId }) => ({
      requestId: lease.requestId,
      lease,
      expectedStageId,
    }));
    const { results, failed } = await bisect(items, (part) =>
      database.transaction((tx) => transition(tx, part, workflows)),
    );
    for (const { item, error } of failed) await this.#blockRow(item.lease, error);
    const toRun: StageToStart[] = [];
    for (const [id, result] of results.flatMap((map) => [...map])) {
      const position = byId.get(id) as Position;
      if (result.kind === 'current' && position.calls < this.#options.budget) {
        toRun.push({ position, stage: result.stage, snapshot: result.snapshot });
      } else {
        await this.#settle(position.lease, result);
      }
    }
    return toRun;
  }

  async #settle(lease: Lease, result: TransitionResult): Promise<void> {
    switch (result.kind) {
      case 'ended':
        this.#options.keeper.drop([lease.requestId]);
        this.#ends.set(lease.requestId, { kind: 'ended', status: result.status });
        return;
      case 'waiting':
        await this.#giveBack([lease], result);
        return;
      case 'current': {
        const { stage, target_community_id } = result.stage;
        await this.#giveBack([lease], { kind: 'budget', stage, place: target_community_id });
        return;
      }
      case 'stale':
        await this.#lost([lease]);
        return;
      case 'error':
        if (this.#options.onMisfit === 'block' && !isUnregistered(result.error)) {
          await this.#blockRow(lease, result.error);
        } else {
          await this.#giveBack([lease], { kind: 'error', error: result.error });
        }
    }
  }

  /** Marks the stages as running. Those under an order go back to the transition, which acts on it. */
  async #start(stages: readonly StageToStart[]): Promise<readonly StageToRun[]> {
    if (stages.length === 0) return [];
    const started = await startStages(
      this.#options.database,
      stages.map(({ position, stage }) => ({ lease: position.lease, stageId: stage.id })),
    );
    const running: StageToRun[] = [];
    for (const item of stages) {
      const { lease, calls } = item.position;
      switch (started.get(lease.requestId)) {
        case 'started':
          running.push({ lease, calls: calls + 1, stage: item.stage, snapshot: item.snapshot });
          this.#options.observer?.stageStarted?.(item.stage);
          break;
        case 'ordered':
          this.#positions.push({ lease, expectedStageId: null, calls });
          break;
        default:
          await this.#lost([lease]);
      }
    }
    return running;
  }

  /** Runs what stands at the same stage of the same place together, the groups side by side. */
  async #runStages(stages: readonly StageToRun[]): Promise<void> {
    const groups = groupBy(stages, ({ stage, snapshot }) =>
      JSON.stringify([
        snapshot.request.workflow,
        snapshot.request.workflow_version,
        stage.stage,
        stage.target_community_id,
      ]),
    );
    await Promise.all([...groups.values()].map((group) => this.#runGroup(group)));
  }

  async #runGroup(group: readonly StageToRun[]): Promise<void> {
    const { workflows } = this.#options;
    const workflow = workflows.of((group[0] as StageToRun).snapshot.request);
    const { results, failed } = await bisect(group, (part) => runHandler(part, workflow, this.#options));
    for (const { item, error } of failed) {
      if (this.#options.signal.aborted) this.#interrupt(item);
      else await this.#save([{ ...item, outcome: failureOutcome(workflow, item.stage.stage, error) }]);
    }
    for (const answer of results) {
      answer.interrupted.forEach((item) => this.#interrupt(item));
      answer.ordered.forEach(({ lease, calls }) => this.#positions.push({ lease, expectedStageId: null, calls }));
      await this.#lost(answer.lost.map(({ lease }) => lease));
      await this.#save(answer.finished, answer.commit);
    }
  }

  #interrupt({ lease, calls }: StageToRun): void {
    this.#positions.push({ lease, expectedStageId: null, calls });
  }

  /** Transaction 1, for many at once. */
  async #save(finished: readonly FinishedStage[], commit?: Commit): Promise<void> {
    const own = finished.filter(({ lease }) => this.#options.keeper.owns(lease.requestId));
    await this.#lost(finished.filter((item) => !own.includes(item)).map(({ lease }) => lease));
    const { results, failed } = await bisect(own, (part) => this.#saveAll(part, commit));
    for (const { item, error } of failed) await this.#blockRow(item.lease, error);
    const saved = new Map(results.flatMap((map) => [...map]));
    const refused = new Set(failed.map(({ item }) => item));
    for (const item of own) {
      if (!refused.has(item)) await this.#afterSave(item, saved.get(item.lease.requestId));
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

  async #afterSave(item: FinishedStage, saved: SaveResult | undefined): Promise<void> {
    const { lease, stage, calls, outcome } = item;
    if (saved === undefined) {
      await this.#lost([lease]);
      return;
    }
    this.#options.observer?.stageSaved?.(stage, outcome);
    if (saved.status === 'running') {
      this.#positions.push({ lease, expectedStageId: outcome.kind === 'completed' ? stage.id : null, calls });
      return;
    }
    const why = outcome.kind === 'failed' ? outcome.error : outcome.kind === 'completed' ? null : outcome.why;
    await this.#giveBack([lease], { kind: 'waiting', status: saved.status, until: saved.next_attempt_at, why });
  }

  #owned(): readonly Position[] {
    const own = this.#positions.filter(({ lease }) => this.#options.keeper.owns(lease.requestId));
    for (const position of this.#positions) {
      if (!own.includes(position))
        this.#end(position.lease, { kind: 'error', error: new LeaseLostError(position.lease.requestId) });
    }
    return own;
  }

  async #giveBack(leases: readonly Lease[], end: RunEnd): Promise<void> {
    await release(this.#options.database, leases);
    for (const lease of leases) this.#end(lease, end);
  }

  /** A stale owner's write was refused; the log says so, and nothing else is touched. */
  async #lost(leases: readonly Lease[]): Promise<void> {
    if (leases.length === 0) return;
    await appendEvents(
      this.#options.database,
      leases.map(({ requestId, owner, generation }) => ({
        request_id: requestId,
        event: 'stale_write_refused',
        actor: owner,
        detail: { lease_generation: generation },
      })),
    );
    for (const lease of leases) this.#end(lease, { kind: 'error', error: new LeaseLostError(lease.requestId) });
  }

  async #blockRow(lease: Lease, error: unknown): Promise<void> {
    const { code, message } = describeError(error);
    await block(this.#options.database, lease, message.startsWith(code) ? message : `${code}: ${message}`);
    this.#options.log.error('request_blocked', { requestId: lease.requestId, code });
    this.#end(lease, { kind: 'error', error });
  }

  #end(lease: Lease, end: RunEnd): void {
    this.#options.keeper.drop([lease.requestId]);
    this.#ends.set(lease.requestId, end);
  }
}

interface StageToStart {
  readonly position: Position;
  readonly stage: StageRow;
  readonly snapshot: Snapshot;
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
