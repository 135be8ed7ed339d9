/**
 * Keeps a worker's leases alive, and knows when they are not.
 *
 * Renewal runs on the main thread on purpose: a thread of its own would keep a hung worker alive for ever. The worker's own
 * deadline is monotonic and counted from before the last successful renewal was sent, so that it always passes before the
 * database's does; a blocked thread that wakes up late sees it at once (EX-14).
 */
import { type Counters, counters } from '../observe/counters.js';
import { describeError } from '../observe/describe-error.js';
import type { Log } from '../observe/log.js';
import { LEASE_SECONDS, type Lease } from '../requests/request.js';
import { renew } from '../requests/renew.js';
import type { Database } from '../storage/database.js';

/** How often leases are renewed, in milliseconds. */
const RENEW_EVERY_MS = 10_000;
/** How often deadlines are looked at, in milliseconds: also while a renewal hangs, handlers are told that they lost. */
const LOOK_EVERY_MS = 1_000;

interface Kept {
  readonly lease: Lease;
  /** By the monotonic clock, in milliseconds. */
  deadline: number;
  lost: boolean;
  /** Writes of this worker under the lease: how many are under way, and how many there were. */
  writing: number;
  writes: number;
}

interface Watch {
  readonly kept: readonly Kept[];
  readonly onAllLost: () => void;
}

export interface LeaseKeeperOptions {
  readonly database: Database;
  readonly log: Log;
  /** Where lost leases are counted; the process's own by default. */
  readonly counters?: Counters;
  /** Milliseconds between renewals; 10,000 by default. */
  readonly renewEvery?: number;
}

export class LeaseKeeper {
  readonly #database: Database;
  readonly #log: Log;
  readonly #counters: Counters;
  /** By request and generation: a worker that lost a lease may claim the request anew while the old work still ends. */
  readonly #kept = new Map<string, Kept>();
  readonly #watches = new Set<Watch>();
  readonly #timers: readonly NodeJS.Timeout[];
  #renewal: Promise<void> | null = null;

  constructor(options: LeaseKeeperOptions) {
    this.#database = options.database;
    this.#log = options.log;
    this.#counters = options.counters ?? counters;
    const renewals = setInterval(() => {
      this.#renewal ??= this.#renew().finally(() => {
        this.#renewal = null;
      });
    }, options.renewEvery ?? RENEW_EVERY_MS);
    const looks = setInterval(() => {
      for (const { lease } of this.#kept.values()) this.owns(lease);
    }, LOOK_EVERY_MS);
    this.#timers = [renewals, looks];
    for (const timer of this.#timers) timer.unref();
  }

  /** @param sentAt - `performance.now()` from before the claim was sent. */
  keep(leases: readonly Lease[], sentAt: number): void {
    for (const lease of leases) {
      const deadline = sentAt + LEASE_SECONDS * 1000;
      this.#kept.set(keyOf(lease), { lease, deadline, lost: false, writing: 0, writes: 0 });
    }
  }

  /** Whether the lease still holds. The only thing to ask before an effect or a save. */
  owns(lease: Lease): boolean {
    const kept = this.#kept.get(keyOf(lease));
    if (kept === undefined) return false;
    if (performance.now() < kept.deadline && !kept.lost) return true;
    this.#lose(kept);
    return false;
  }

  /**
   * Calls `onAllLost` once when none of the leases is left, which may be at once. One watch for a batch: a listener for each
   * lease of each call would cost more than many a handler.
   * @returns ends the watch.
   */
  watch(leases: readonly Lease[], onAllLost: () => void): () => void {
    const watch = { kept: leases.flatMap((lease) => this.#kept.get(keyOf(lease)) ?? []), onAllLost };
    this.#watches.add(watch);
    this.#tell(watch);
    return () => this.#watches.delete(watch);
  }

  /**
   * Runs a write under these leases. Such a write can give ownership back, and it has the rows locked: renewals leave them
   * out meanwhile, and one that crosses it takes nothing it finds for a loss. The write's own answer says what is the case.
   */
  async writing<T>(leases: readonly Lease[], write: () => Promise<T>): Promise<T> {
    const written = leases.flatMap((lease) => this.#kept.get(keyOf(lease)) ?? []);
    for (const kept of written) {
      kept.writing += 1;
      kept.writes += 1;
    }
    try {
      return await write();
    } finally {
      for (const kept of written) kept.writing -= 1;
    }
  }

  /** A write under these leases was refused: they are lost, whatever the deadlines say. */
  lose(leases: readonly Lease[]): void {
    for (const lease of leases) {
      const kept = this.#kept.get(keyOf(lease));
      if (kept !== undefined) this.#lose(kept);
    }
  }

  /** Forgets leases that were given back or lost. */
  drop(leases: readonly Lease[]): void {
    for (const lease of leases) this.#kept.delete(keyOf(lease));
  }

  /** No renewal outlives this call. */
  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    this.#kept.clear();
    await this.#renewal;
  }

  async #renew(): Promise<void> {
    const held = [...this.#kept.values()]
      .filter((kept) => kept.writing === 0 && this.owns(kept.lease))
      .map((kept) => ({ kept, writes: kept.writes }));
    if (held.length === 0) return;
    const sentAt = performance.now();
    try {
      const { renewed, lost } = await renew(
        this.#database.aside,
        held.map(({ kept }) => kept.lease),
      );
      for (const { kept, writes } of held) {
        const { requestId } = kept.lease;
        if (renewed.has(requestId)) kept.deadline = sentAt + LEASE_SECONDS * 1000;
        else if (lost.has(requestId) && kept.writes === writes) this.#lose(kept);
      }
    } catch (error) {
      // The deadlines stand; the next renewal may still come in time.
      this.#log.warn('lease_renewal_failed', { code: describeError(error).code, count: held.length });
    }
  }

  #lose(kept: Kept): void {
    if (kept.lost) return;
    // One that was given back meanwhile is nobody's loss.
    if (this.#kept.get(keyOf(kept.lease)) !== kept) return;
    kept.lost = true;
    this.#counters.add('expunge_leases_lost_total', {});
    this.#log.warn('lease_lost', { requestId: kept.lease.requestId, leaseGeneration: kept.lease.generation });
    for (const watch of this.#watches) this.#tell(watch);
  }

  #tell(watch: Watch): void {
    if (watch.kept.every(({ lost }) => lost) && this.#watches.delete(watch)) watch.onAllLost();
  }
}

function keyOf({ requestId, generation }: Lease): string {
  return `${requestId} ${generation}`;
}
