/** The claim loop: takes what is due, many at a time, until it is told to stop. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describeError } from '../observe/describe-error.js';
import { isExpungeError } from '../observe/expunge-error.js';
import type { Log } from '../observe/log.js';
import { claimDue } from '../requests/claim.js';
import { endDueHolds } from '../requests/orders.js';
import type { Database } from '../storage/database.js';
import { advance, type RunEnd, type RunObserver } from './advance.js';
import { LeaseKeeper } from './lease-keeper.js';
import { isUnregistered, type RegisteredWorkflows } from './registered-workflows.js';

export interface WorkerOptions {
  readonly database: Database;
  readonly workflows: RegisteredWorkflows;
  readonly log: Log;
  /** Ends the loop: what runs is interrupted, and its ownership given back. */
  readonly signal: AbortSignal;
  readonly executorId: string;
  /** Requests that one claim takes. */
  readonly batch?: number;
  /** Batches that are worked on side by side, so that a slow target does not hold up everything. */
  readonly concurrency?: number;
  /** Milliseconds to wait when nothing is due. */
  readonly pollEvery?: number;
  /** Ends when nothing is due any more, instead of waiting for more. */
  readonly once?: boolean;
  readonly observer?: RunObserver & { ended?(requestId: string, end: RunEnd): void };
}

/** The longest pause between attempts to reach a database that does not answer, in milliseconds. */
const LONGEST_PAUSE_MS = 30_000;

export async function work(options: WorkerOptions): Promise<void> {
  const keeper = new LeaseKeeper(options);
  const left = new Set<string>();
  options.log.info('worker_started', { executorId: options.executorId });
  try {
    const loops = Array.from({ length: options.concurrency ?? 2 }, () => loop(options, keeper, left));
    await Promise.all(loops);
  } finally {
    await keeper.close();
    options.log.info('worker_stopped', { executorId: options.executorId });
  }
}

async function loop(options: WorkerOptions, keeper: LeaseKeeper, left: Set<string>): Promise<void> {
  const { signal, log } = options;
  const poll = options.pollEvery ?? 1000;
  let pause = poll;
  while (!signal.aborted) {
    try {
      const count = await workOnce(options, keeper, left);
      pause = poll;
      if (count > 0) continue;
      if (options.once === true) return;
    } catch (error) {
      if (!isExpungeError(error, 'DATABASE_UNAVAILABLE')) throw error;
      if (options.once === true) throw error;
      log.error('database_unavailable', { code: describeError(error).code });
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
    // Woken by the signal: that is no fault.
    await sleep(pause, undefined, { signal }).catch(() => undefined);
  }
}

/** Claims one batch and takes it as far as it goes. Returns how many it claimed. */
async function workOnce(options: WorkerOptions, keeper: LeaseKeeper, left: Set<string>): Promise<number> {
  const { database, workflows, executorId } = options;
  await database.transaction(endDueHolds);
  const sentAt = performance.now();
  const claimed = await claimDue(database, {
    owner: executorId,
    limit: options.batch ?? 500,
    workflows: workflows.all
      .filter(({ runBy }) => runBy === 'worker')
      .map(({ name, version }) => ({ workflow: name, version })),
    except: [...left],
  });
  const leases = claimed.map(({ lease }) => lease);
  if (leases.length === 0) return 0;
  keeper.keep(leases, sentAt);
  const ends = await advance(leases, {
    database,
    workflows,
    keeper,
    log: options.log,
    signal: options.signal,
    budget: Number.POSITIVE_INFINITY,
    onMisfit: 'block',
    ...(options.observer === undefined ? {} : { observer: options.observer }),
  });
  for (const [id, end] of ends) {
    if (end.kind === 'error' && isUnregistered(end.error)) leaveAlone(id, left, options.log);
    options.observer?.ended?.(id, end);
  }
  return leases.length;
}

/** Reported once, and not claimed again by this worker: another program may have its version (EX-27). */
function leaveAlone(id: string, left: Set<string>, log: Log): void {
  left.add(id);
  log.error('workflow_unregistered', { requestId: id });
}
