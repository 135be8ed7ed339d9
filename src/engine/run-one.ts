/** An operator's run of one request: a batch of one, with refusals in words (OP-4 to OP-7). */
import type { Counters } from '../observe/counters.js';
import type { Log } from '../observe/log.js';
import { type Claimed, claimOne, isUncounted } from '../requests/claim.js';
import { endDueHold } from '../requests/orders.js';
import { RequestRefusedError, unknownRequest } from '../requests/request-error.js';
import { readSnapshot } from '../requests/snapshot.js';
import type { Database, Queries } from '../storage/database.js';
import { advance, type RunEnd, type RunObserver } from './advance.js';
import { sendAgain } from './database-fault.js';
import { LeaseKeeper } from './lease-keeper.js';
import { prepare } from './prepare.js';
import type { RegisteredWorkflows } from './registered-workflows.js';

/** Handler calls that one run makes before it gives the request back (EX-12). */
export const CALLS_PER_RUN = 100;

export interface RunOptions {
  readonly database: Database;
  readonly workflows: RegisteredWorkflows;
  readonly log: Log;
  /** The process's own by default. */
  readonly counters?: Counters;
  readonly signal: AbortSignal;
  readonly executorId: string;
  /** Handler calls; `CALLS_PER_RUN` by default. */
  readonly budget?: number;
  readonly observer?: RunObserver;
}

/**
 * Runs a request until it ends, waits, or has used its budget; one without an inventory is counted, and waits for approval then.
 * One that has ended already is left exactly as it is (EX-19).
 * @throws RequestRefusedError where it cannot be claimed or is not this program's; nothing was changed then.
 */
export async function runOne(requestId: string, options: RunOptions): Promise<RunEnd> {
  const { database, workflows } = options;
  const { end, isHeld } = await look(requestId, options);
  if (end !== null) return end;
  if (options.signal.aborted) return { kind: 'interrupted' };
  const keeper = new LeaseKeeper(options);
  try {
    const claimed = await claim(requestId, options, isHeld);
    if ('kind' in claimed) return claimed;
    const { lease, sentAt } = claimed;
    keeper.keep([lease], sentAt);
    if (isUncounted(claimed.request)) {
      const { log, signal, counters } = options;
      const shared = { database, workflows, keeper, log, signal, ...(counters === undefined ? {} : { counters }) };
      const counted = await prepare([claimed], shared);
      return counted.get(requestId) ?? { kind: 'interrupted' };
    }
    const ends = await advance([lease], {
      database,
      workflows,
      keeper,
      log: options.log,
      signal: options.signal,
      budget: options.budget ?? CALLS_PER_RUN,
      onMisfit: 'leave',
      ...(options.counters === undefined ? {} : { counters: options.counters }),
      ...(options.observer === undefined ? {} : { observer: options.observer }),
    });
    return ends.get(lease.requestId) ?? { kind: 'interrupted' };
  } finally {
    await keeper.close();
  }
}

interface Look {
  /** How it ended, where it has; null where this program can run it. */
  readonly end: RunEnd | null;
  /** A hold stands, whose time may have come. */
  readonly isHeld: boolean;
}

async function look(requestId: string, { database, workflows }: RunOptions): Promise<Look> {
  const snapshot = await readSnapshot(database, requestId);
  if (snapshot === null) throw unknownRequest(requestId);
  const { status, standing_order } = snapshot.request;
  if (status === 'completed' || status === 'cancelled') return { end: { kind: 'ended', status }, isHeld: false };
  workflows.requireRunnable(snapshot);
  return { end: null, isHeld: standing_order === 'hold' };
}

/** Where another run has finished it in the meantime, this one has nothing to refuse. */
async function claim(
  requestId: string,
  options: RunOptions,
  isHeld: boolean,
): Promise<RunEnd | (Claimed & { sentAt: number })> {
  const { database, executorId } = options;
  try {
    return await sendAgain(async () => {
      const sentAt = performance.now();
      const claimed = isHeld
        ? await database.transaction((tx) => claimHeld(tx, requestId, executorId))
        : await claimOne(database, requestId, executorId);
      return { ...claimed, sentAt };
    });
  } catch (error) {
    if (!(error instanceof RequestRefusedError) || error.code !== 'WRONG_STATUS') throw error;
    const { end } = await look(requestId, options);
    if (end !== null) return end;
    throw error;
  }
}

/** A hold whose time has come ends with the claim; where that is refused, the hold is as it was, too (OP-10). */
async function claimHeld(tx: Queries, requestId: string, executorId: string): Promise<Claimed> {
  await endDueHold(tx, requestId);
  return claimOne(tx, requestId, executorId);
}
