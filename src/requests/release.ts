/** Gives ownership back; a lease that is no longer one's own stays as it is (EX-15). */
import { sql } from 'kysely';
import type { Queries } from '../storage/database.js';
import { owned } from './fence.js';
import type { Lease } from './request.js';

/** Returns the ids that were released. */
export async function release(queries: Queries, leases: readonly Lease[]): Promise<ReadonlySet<string>> {
  if (leases.length === 0) return new Set();
  const { db, t } = queries;
  const { rows } = await sql<{ id: string }>`
    WITH ${owned(
      t,
      leases.map((lease) => ({ lease })),
    )}
    UPDATE ${t.requests} r
       SET lease_owner = NULL, lease_expires_at = NULL
      FROM owned
     WHERE r.id = owned.request_id
    RETURNING r.id`.execute(db);
  return new Set(rows.map(({ id }) => id));
}

/**
 * Ends every lease in an embedded database: whoever has its directory lock is its only process, so that the owners that it
 * finds are dead. Generations rise with the next claim, as ever.
 */
export async function endAbandonedLeases(queries: Queries): Promise<void> {
  const { db, t } = queries;
  await sql`
    UPDATE ${t.requests} SET lease_owner = NULL, lease_expires_at = NULL WHERE lease_owner IS NOT NULL`.execute(db);
}
