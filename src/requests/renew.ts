/** Keeps leases alive (EX-14). */
import { sql } from 'kysely';
import type { Database } from '../storage/database.js';
import { owned } from './fence.js';
import { LEASE_SECONDS, type Lease } from './request.js';

/** How long a renewal waits for a locked row before it gives up; the next one comes in ten seconds. */
const LOCK_TIMEOUT = '2s';

/** Renews the leases that are still valid, and returns the ids of their requests. */
export async function renew(
  database: Pick<Database, 'transaction'>,
  leases: readonly Lease[],
): Promise<ReadonlySet<string>> {
  return database.transaction(async ({ db, t }) => {
    await sql`SELECT set_config('lock_timeout', ${LOCK_TIMEOUT}::text, true)`.execute(db);
    const { rows } = await sql<{ id: string }>`
      WITH ${owned(
        t,
        leases.map((lease) => ({ lease })),
      )}
      UPDATE ${t.requests} r
         SET lease_expires_at = clock_timestamp() + make_interval(secs => ${LEASE_SECONDS}::integer),
             heartbeat_at = clock_timestamp()
        FROM owned
       WHERE r.id = owned.request_id
      RETURNING r.id`.execute(db);
    return new Set(rows.map(({ id }) => id));
  });
}
