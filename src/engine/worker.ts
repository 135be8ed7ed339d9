/** The claim loop: takes what is due, many at a time, until it is told to stop. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Counters } from '../observe/counters.js';
import { describeError } from '../observe/describe-error.js';
import type { Log } from '../observe/log.js';
import { type Claimed, claimDue, findUnknownWorkflows, type WorkflowName } from '../requests/claim.js';
import { endDueHolds } from '../requests/orders.js';
import type { Database } from '../storage/database.js';
import { advance, type RunEnd, type RunObserver } from './advance.js';
import { faultOf, sendAgain } from './database-fault.js';
import { LeaseKeeper } from './lease-keeper.js';
import { prepare } from './prepare.js';
import type { RegisteredWorkflows } from './registered-workflows.js';

export interface WorkerOptions {
  readonly database: Database;
  readonly workflows: RegisteredWorkflows;
  readonly log: Log;
  /** The process's own by default. */
  readonly counters?: Counters;
  /** Ends the loop: what runs is interrupted, and its ownership given back. */
  readonly signal: AbortSignal;
  readonly executorId: string;
  /** Requests that one claim takes; `REQUESTS_PER_CLAIM` by default. */
  readonly batch?: number;
  /** Batches that are worked on side by side, so that a slow target does not hold up everything. */
  readonly concurrency?: number;
  /** Milliseconds to wait when nothing is due. */
  readonly pollEvery?: number;
  /** Ends when nothing is due any more, instead of waiting for more. */
  readonly once?: boolean;
  readonly observer?: RunObserver & { ended?(requestId: string, end: RunEnd): void };
}

/**
 * Every stage takes the same number of statements for one request as for thousands, here and in the targets, so that large claims
 * are what makes a run of many cheap. What is claimed is in memory, about 70 KB each: two claims of 2,500 side by side took 460 MB.
 */
const REQUESTS_PER_CLAIM = 1_000;

/** The pauses between attempts to reach a database that does not answer, in milliseconds: from the one to the other. */
const SHORTEST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;
/** How often to look for requests of workflows that this program does not have, in milliseconds. */
const LOOK_FOR_UNKNOWN_EVERY_MS = 60_000;

/**
 * Returns when the signal has ended it, and no handler runs any more.
 * @throws what is a fault of the program and not of a request or of the database: then, too, only after all work has settled.
 */
export async function work(options: WorkerOptions): Promise<void> {
  await new Worker(options).run();
}

class Worker {
  readonly #options: WorkerOptions;
  readonly #keeper: LeaseKeeper;
  /** Aborted by the caller's signal, and when one of the loops cannot go on: then none of them may. */
  readonly #stop = new AbortController();
  /** Requests that this worker has found it cannot advance. */
  readonly #left = new Set<string>();
  /** Workflows that it does not have, by name and version, which it has spoken of. */
  readonly #reported = new Set<string>();
  #lookedForUnknownAt = Number.NEGATIVE_INFINITY;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#keeper = new LeaseKeeper(options);
  }

  async run(): Promise<void> {
    const { signal, log, executorId, concurrency } = this.#options;
    const onStop = () => this.#stop.abort(signal.reason);
    signal.addEventListener('abort', onStop);
    if (signal.aborted) onStop();
    log.info('worker_started', { executorId });
    try {
      const loops = Array.from({ length: concurrency ?? 2 }, () => this.#loop());
      const failure = (await Promise.allSettled(loops)).find(({ status }) => status === 'rejected');
      if (failure?.status === 'rejected') throw failure.reason;
    } finally {
      signal.removeEventListener('abort', onStop);
      await this.#keeper.close();
      log.info('worker_stopped', { executorId });
    }
  }

  async #loop(): Promise<void> {
    const { log, once } = this.#options;
    const poll = this.#options.pollEvery ?? 1000;
    const { signal } = this.#stop;
    let pause = poll;
    while (!signal.aborted) {
      try {
        const count = await this.#workOnce();
        pause = poll;
        if (count > 0) continue;
        if (once === true) return;
      } catch (error) {
        if (once === true || faultOf(error) === 'rows') {
          this.#stop.abort();
          throw error;
        }
        log.error('database_unavailable', { code: describeError(error).code });
        pause = Math.min(Math.max(pause * 2, SHORTEST_PAUSE_MS), LONGEST_PAUSE_MS);
      }
      // Woken by the signal: that is no fault.
      await sleep(pause, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Claims one batch and takes it as far as it goes. Returns how many it claimed. */
  async #workOnce(): Promise<number> {
    const { database, workflows, log, observer, counters } = this.#options;
    await this.#reportUnknownWorkflows();
    await sendAgain(() => database.transaction(endDueHolds));
    const counted = await this.#countOnce();
    const leases = (await this.#claim('advance')).map(({ lease }) => lease);
    if (leases.length === 0) return counted;
    const ends = await advance(leases, {
      database,
      workflows,
      keeper: this.#keeper,
      log,
      signal: this.#stop.signal,
      budget: Number.POSITIVE_INFINITY,
      onMisfit: 'block',
      onUnregistered: (id) => this.#leaveAlone(id),
      ...(counters === undefined ? {} : { counters }),
      ...(observer === undefined ? {} : { observer }),
    });
    for (const [id, end] of ends) observer?.ended?.(id, end);
    return leases.length + counted;
  }

  /** Counts one batch of what was submitted without an inventory (WF-1). Returns how many it claimed. */
  async #countOnce(): Promise<number> {
    const { database, workflows, log, observer, counters } = this.#options;
    const claimed = await this.#claim('count');
    if (claimed.length === 0) return 0;
    const ends = await prepare(claimed, {
      ...{ database, workflows, keeper: this.#keeper, log, signal: this.#stop.signal },
      ...(counters === undefined ? {} : { counters }),
    });
    for (const [id, end] of ends) observer?.ended?.(id, end);
    return claimed.length;
  }

  async #claim(which: 'advance' | 'count'): Promise<readonly Claimed[]> {
    const { database, workflows, executorId, batch } = this.#options;
    const able = workflows.all.filter(
      (workflow) => workflow.runBy === 'worker' && (which === 'advance' || workflow.prepare !== undefined),
    );
    const sentAt = performance.now();
    const claimed = await claimDue(database, {
      owner: executorId,
      limit: batch ?? REQUESTS_PER_CLAIM,
      which,
      workflows: namesOf(able),
      except: [...this.#left],
    });
    this.#keeper.keep(
      claimed.map(({ lease }) => lease),
      sentAt,
    );
    return claimed;
  }

  /** Reported once, and not claimed again by this worker: another program may have its version (EX-27). */
  #leaveAlone(id: string): void {
    // Another loop's claim can have been on its way before this one gave the request back.
    if (this.#left.has(id)) return;
    this.#left.add(id);
    this.#options.log.error('workflow_unregistered', { requestId: id });
  }

  /** These are never claimed, so that nothing else would say that they wait (EX-27). */
  async #reportUnknownWorkflows(): Promise<void> {
    if (performance.now() < this.#lookedForUnknownAt + LOOK_FOR_UNKNOWN_EVERY_MS) return;
    this.#lookedForUnknownAt = performance.now();
    const { database, workflows, log } = this.#options;
    for (const { workflow, version, count } of await findUnknownWorkflows(database, namesOf(workflows.all))) {
      const name = `${workflow} ${version}`;
      if (this.#reported.has(name)) continue;
      this.#reported.add(name);
      log.error('workflow_unregistered', { workflow, workflowVersion: version, count });
    }
  }
}

function namesOf(workflows: readonly { readonly name: string; readonly version: number }[]): readonly WorkflowName[] {
  return workflows.map(({ name, version }) => ({ workflow: name, version }));
}
