/** Lets the database approve what a standing approval covers (WF-8). Nothing is decided here: a worker may not approve. */
import { sql } from 'kysely';
import { type Queries, uuids } from '../storage/database.js';

/** Returns the ids of those that were approved; the others await a person. Call it inside a transaction. */
export async function applyStandingApprovals(tx: Queries, ids: readonly string[]): Promise<ReadonlySet<string>> {
  if (ids.length === 0) return new Set();
  const { rows } = await sql<{ request_id: string }>`
    SELECT request_id FROM ${tx.t.applyStandingApprovals}(${uuids(ids)})`.execute(tx.db);
  return new Set(rows.map(({ request_id }) => request_id));
}
