/** The runs of one handler call: those still under way, and what was said of the others. */
import type { HandlerContext, Outcome, StageProgress, StageRun } from '../../engine/workflow.js';
import type { Counters } from '../../observe/counters.js';
import { describeError } from '../../observe/describe-error.js';
import { type TargetError } from '../../targets/target-error.js';
import { outcomeOf } from './call-target.js';
import type { ErasureDependencies } from './dependencies.js';
import { openSubjects, type OpenedSubject } from './sealed-subjects.js';

/** One request under way, with its subject open. */
export interface OpenRun {
  readonly id: string;
  readonly run: StageRun;
  readonly subject: OpenedSubject;
}

export class StageBatch {
  readonly outcomes = new Map<string, Outcome>();
  readonly #live = new Map<string, OpenRun>();
  readonly #counters: Counters;

  private constructor(counters: Counters) {
    this.#counters = counters;
  }

  /** Opens the subjects. A request that cannot be opened is blocked, loudly (WF-3). */
  static async open(runs: readonly StageRun[], deps: ErasureDependencies): Promise<StageBatch> {
    const subjects = await openSubjects(
      deps.database,
      deps.ring,
      runs.map(({ request }) => request.id),
    );
    const batch = new StageBatch(deps.counters);
    for (const run of runs) {
      const { id } = run.request;
      const subject = subjects.get(id);
      if (subject !== undefined && !(subject instanceof Error)) {
        batch.#live.set(id, { id, run, subject });
        continue;
      }
      deps.log.error('stage_failed', { requestId: id, stage: run.stage.stage, code: describeError(subject).code });
      batch.outcomes.set(id, { kind: 'failed', error: errorText(subject), retryable: false });
    }
    return batch;
  }

  get live(): readonly OpenRun[] {
    return [...this.#live.values()];
  }

  /** A run that is still under way. */
  get(id: string): OpenRun | undefined {
    return this.#live.get(id);
  }

  /** Takes runs out of what is under way; they are finished apart. */
  setAside(opens: readonly OpenRun[]): void {
    for (const { id } of opens) this.#live.delete(id);
  }

  finish(id: string, outcome: Outcome): void {
    this.#live.delete(id);
    this.outcomes.set(id, outcome);
  }

  /** Ends a run by a target's fault. */
  fail(open: OpenRun, error: TargetError): void {
    this.#counters.add('expunge_target_failures_total', { target: error.detail.target, code: error.code });
    this.finish(open.id, outcomeOf(error, pausesBefore(open.run)));
  }

  /** What was saved of a run stands in its stage from here on, as it does in the database. */
  remember(id: string, progress: StageProgress): void {
    const open = this.#live.get(id);
    if (open === undefined) return;
    const { stage } = open.run;
    const run = { ...open.run, stage: { ...stage, metadata_json: { ...stage.metadata_json, ...progress } } };
    this.#live.set(id, { ...open, run });
  }

  /** What was resolved of a run's subject. */
  resolve(id: string, resolved: OpenedSubject['resolved']): void {
    const open = this.#live.get(id);
    if (open !== undefined) this.#live.set(id, { ...open, subject: { ...open.subject, resolved } });
  }

  /** Drops those of `opens` whose progress was not saved: the engine knows why. */
  keepOf(opens: Iterable<Pick<OpenRun, 'id'>>, saved: ReadonlySet<string>): void {
    for (const { id } of opens) if (!saved.has(id)) this.#live.delete(id);
  }

  /** Saves intents or cursors, drops the runs for which that was refused, and remembers the others'. */
  async save(context: HandlerContext, progress: ReadonlyMap<string, StageProgress>): Promise<void> {
    if (progress.size === 0) return;
    const saved = await context.save(progress);
    this.keepOf(
      [...progress.keys()].map((id) => ({ id })),
      saved,
    );
    for (const [id, one] of progress) this.remember(id, one);
  }
}

/** How many visits in a row ended waiting, just before this one. */
function pausesBefore({ stage, history }: StageRun): number {
  const visits = history.filter((record) => record.stage === stage.stage && record.place === stage.target_community_id);
  const last = visits.findLastIndex(({ result }) => result?.['state'] !== 'postponed');
  return visits.length - 1 - last + stage.attempts;
}

function errorText(error: unknown): string {
  const { code, message } = describeError(error);
  return message.includes(code) ? message : `${code}: ${message}`;
}
