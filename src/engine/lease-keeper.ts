/**
 * Keeps a worker's leases alive, and knows when they are not.
 *
 * Renewal runs on the main thread on purpose: a thread of its own would keep a hung worker alive for ever. The worker's own
 * deadline is monotonic and counted from before the last successful renewal was sent, so that it always passes before the
 * database's does; a blocked thread that wakes up late sees it at once (EX-14).
 */
import { describeError } from '../observe/describe-error.js';
import type { Log } from '../observe/log.js';
import { LEASE_SECONDS, type Lease } from '../requests/request.js';
import { renew } from '../requests/renew.js';
import type { Database } from '../storage/database.js';

/** How often leases are renewed, in milliseconds. */
const RENEW_EVERY_MS = 10_000;

interface Kept {
  readonly lease: Lease;
  /** By the monotonic clock, in milliseconds. */
  deadline: number;
  readonly lost: AbortController;
}

export interface LeaseKeeperOptions {
  readonly database: Database;
  readonly log: Log;
  /** Milliseconds between renewals; for tests. */
  readonly renewEvery?: number;
}

export class LeaseKeeper {
  readonly #database: Database;
  readonly #log: Log;
  readonly #kept = new Map<string, Kept>();
  readonly #timer: NodeJS.Timeout;
  #renewal: Promise<void> | null = null;

  constructor(options: LeaseKeeperOptions) {
    this.#database = options.database;
    this.#log = options.log;
    this.#timer = setInterval(() => {
      this.#renewal ??= this.#renew().finally(() => {
        this.#renewal = null;
      });
    }, options.renewEvery ?? RENEW_EVERY_MS);
    this.#timer.unref();
  }

  /** @param sentAt - `performance.now()` from before the claim was sent. */
  keep(leases: readonly Lease[], sentAt: number): void {
    for (const lease of leases) {
      this.#kept.set(lease.requestId, { lease, deadline: sentAt + LEASE_SECONDS * 1000, lost: new AbortController() });
    }
  }

  /** Whether the lease still holds. The only thing to ask before an effect or a save. */
  owns(requestId: string): boolean {
    const kept = this.#kept.get(requestId);
    if (kept === undefined) return false;
    if (performance.now() < kept.deadline && !kept.lost.signal.aborted) return true;
    this.#lose(kept);
    return false;
  }

  /** Aborted when the lease is lost. */
  signalOf(requestId: string): AbortSignal {
    return this.#kept.get(requestId)?.lost.signal ?? AbortSignal.abort();
  }

  /** Forgets leases that were given back or lost. */
  drop(requestIds: Iterable<string>): void {
    for (const id of requestIds) this.#kept.delete(id);
  }

  /** No renewal outlives this call. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#kept.clear();
    await this.#renewal;
  }

  async #renew(): Promise<void> {
    const held = [...this.#kept.values()].filter(({ lease }) => this.owns(lease.requestId));
    if (held.length === 0) return;
    const sentAt = performance.now();
    try {
      const renewed = await renew(
        this.#database.aside,
        held.map(({ lease }) => lease),
      );
      for (const kept of held) {
        if (this.#kept.get(kept.lease.requestId) !== kept) continue;
        if (renewed.has(kept.lease.requestId)) kept.deadline = sentAt + LEASE_SECONDS * 1000;
        else this.#lose(kept);
      }
    } catch (error) {
      // The deadlines stand; the next renewal may still come in time.
      this.#log.warn('lease_renewal_failed', { code: describeError(error).code, count: held.length });
    }
  }

  #lose(kept: Kept): void {
    if (kept.lost.signal.aborted) return;
    kept.lost.abort();
    this.#log.warn('lease_lost', { requestId: kept.lease.requestId, leaseGeneration: kept.lease.generation });
  }
}
