/** Stops requests that cannot be advanced by themselves, each with its reason (bisected out of its batch). */
import { sql } from 'kysely';
import type { Queries } from '../storage/database.js';
import { storableText } from '../storage/storable.js';
import { owned } from './fence.js';
import type { Lease } from './request.js';

export interface Block {
  readonly lease: Lease;
  /** Codes, names and numbers only: it is shown to operators and stands in the event log. */
  readonly reason: string;
}

/** Blocks them and gives up ownership. A request that is missing from the answer was no longer owned: it is as it was. */
export async function block(queries: Queries, blocks: readonly Block[]): Promise<ReadonlySet<string>> {
  if (blocks.length === 0) return new Set();
  const { db, t } = queries;
  const rows = blocks.map(({ lease, reason }) => ({ lease, values: { reason: storableText(reason) } }));
  const { rows: blocked } = await sql<{ id: string }>`
    WITH ${owned(t, rows, sql`reason text`)},
    blocked AS (
      UPDATE ${t.requests} r
         SET status = 'blocked', held_status = NULL, blocked_at = owned.at, blocked_reason = owned.reason,
             last_error = owned.reason, next_attempt_at = NULL, lease_owner = NULL, lease_expires_at = NULL
        FROM owned
       WHERE r.id = owned.request_id
      RETURNING r.id, owned.owner, owned.reason
    ), logged AS (
      INSERT INTO ${t.events} (request_id, event, actor, detail)
      SELECT id, 'blocked', owner, jsonb_build_object('why', reason) FROM blocked
    )
    SELECT id FROM blocked`.execute(db);
  return new Set(blocked.map(({ id }) => id));
}
