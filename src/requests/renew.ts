/** Keeps leases alive (EX-14). */
import { sql } from 'kysely';
import type { Database, Queries } from '../storage/database.js';
import { owned } from './fence.js';
import { LEASE_SECONDS, type Lease } from './request.js';

/** How long a renewal waits for locked rows before it gives up; the next one comes in ten seconds. */
const LOCK_TIMEOUT = '2s';
const LOCK_NOT_AVAILABLE = '55P03';

/** What became of the leases. One in neither set belongs to a row that somebody kept locked: it is as it was. */
export interface Renewal {
  readonly renewed: ReadonlySet<string>;
  /** Expired, or somebody else's by now. */
  readonly lost: ReadonlySet<string>;
}

/**
 * Renews the leases that are still valid. What can be locked at once is renewed at once, so that one row which somebody
 * keeps locked does not cost a whole batch its leases, and so that no lock is held while another is waited for: a save never
 * waits for a renewal that waits. Only then are the others waited for, up to two seconds.
 */
export async function renew(
  database: Queries & Pick<Database, 'transaction'>,
  leases: readonly Lease[],
): Promise<Renewal> {
  const first = await renewLocking(database, leases, 'skip');
  const skipped = leases.filter(({ requestId }) => !first.renewed.has(requestId) && !first.lost.has(requestId));
  if (skipped.length === 0) return first;
  const second = await renewWaiting(database, skipped);
  return {
    renewed: new Set([...first.renewed, ...second.renewed]),
    lost: new Set([...first.lost, ...second.lost]),
  };
}

async function renewWaiting(database: Pick<Database, 'transaction'>, leases: readonly Lease[]): Promise<Renewal> {
  try {
    return await database.transaction(async (tx) => {
      await sql`SELECT set_config('lock_timeout', ${LOCK_TIMEOUT}::text, true)`.execute(tx.db);
      return renewLocking(tx, leases, 'wait');
    });
  } catch (error) {
    if ((error as { code?: unknown } | null)?.code !== LOCK_NOT_AVAILABLE) throw error;
    return { renewed: new Set(), lost: new Set() };
  }
}

async function renewLocking({ db, t }: Queries, leases: readonly Lease[], wait: 'wait' | 'skip'): Promise<Renewal> {
  const rows = leases.map((lease) => ({ lease }));
  const { rows: locked } = await sql<{ id: string; renewed: boolean }>`
    WITH ${owned(t, rows, undefined, wait)},
    renewed AS (
      UPDATE ${t.requests} r
         SET lease_expires_at = owned.at + make_interval(secs => ${LEASE_SECONDS}::integer), heartbeat_at = owned.at
        FROM owned
       WHERE r.id = owned.request_id
      RETURNING r.id
    )
    SELECT locked.id, renewed.id IS NOT NULL AS renewed
      FROM locked LEFT JOIN renewed ON renewed.id = locked.id`.execute(db);
  return {
    renewed: new Set(locked.filter(({ renewed }) => renewed).map(({ id }) => id)),
    lost: new Set(locked.filter(({ renewed }) => !renewed).map(({ id }) => id)),
  };
}
