/** Stops a request that cannot be advanced by itself, alone, with the reason (bisected out of its batch). */
import { sql } from 'kysely';
import type { Queries } from '../storage/database.js';
import { storableText } from '../storage/storable.js';
import { owned } from './fence.js';
import type { Lease } from './request.js';

/** Blocks it and gives up ownership. Returns false when the lease was not valid any more. */
export async function block(queries: Queries, lease: Lease, reason: string): Promise<boolean> {
  const { db, t } = queries;
  const text = storableText(reason);
  const { rows } = await sql<{ id: string }>`
    WITH ${owned(t, [{ lease }])},
    blocked AS (
      UPDATE ${t.requests} r
         SET status = 'blocked', held_status = NULL, blocked_at = owned.at, blocked_reason = ${text}::text,
             last_error = ${text}::text, next_attempt_at = NULL, lease_owner = NULL, lease_expires_at = NULL
        FROM owned
       WHERE r.id = owned.request_id
      RETURNING r.id
    ), logged AS (
      INSERT INTO ${t.events} (request_id, event, actor, detail)
      SELECT id, 'blocked', ${lease.owner}::text, jsonb_build_object('why', ${text}::text) FROM blocked
    )
    SELECT id FROM blocked`.execute(db);
  return rows.length > 0;
}
