/** Reading batches: for people, and page by page for whoever has to look at every member. */
import { sql } from 'kysely';
import type { Queries } from '../storage/database.js';
import type { JsonObject } from '../storage/json.js';
import type { RequestStatus } from './request.js';

/** The first inventory of one member, which is what the batch's digest covers. */
export interface FirstInventory {
  readonly request_id: string;
  readonly position: number;
  readonly inventory_digest: string;
  /** Null where only digests were asked for. */
  readonly inventory: JsonObject | null;
}

/** So many members are in memory at once. */
const PAGE = 5_000;

/** In the order of the positions, a bounded number at a time. Refused members have no inventory, and are not among them. */
export async function* readFirstInventories(
  { db, t }: Queries,
  batchId: string,
  { contents }: { readonly contents: boolean },
): AsyncGenerator<readonly FirstInventory[]> {
  for (let after = 0; ;) {
    const { rows } = await sql<FirstInventory>`
      SELECT r.id AS request_id, r.batch_position AS position, i.inventory_digest,
             ${contents ? sql`i.inventory` : sql`NULL::jsonb`} AS inventory
        FROM ${t.requests} r
        JOIN ${t.inventories} i ON i.request_id = r.id AND i.revision = 1
       WHERE r.batch_id = ${batchId}::uuid AND r.batch_position > ${after}::integer
       ORDER BY r.batch_position
       LIMIT ${PAGE}::integer`.execute(db);
    if (rows.length > 0) yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE) return;
    after = last.position;
  }
}

/** The members that have not ended, a bounded number at a time, in the order of their positions. */
export async function* readLiveMembers({ db, t }: Queries, batchId: string): AsyncGenerator<readonly string[]> {
  for (let after = 0; ;) {
    const { rows } = await sql<{ id: string; position: number }>`
      SELECT id, batch_position AS position FROM ${t.requests}
       WHERE batch_id = ${batchId}::uuid AND batch_position > ${after}::integer
         AND status NOT IN ('completed', 'cancelled')
       ORDER BY batch_position
       LIMIT ${PAGE}::integer`.execute(db);
    if (rows.length > 0) yield rows.map(({ id }) => id);
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE) return;
    after = last.position;
  }
}

/** How the members of a batch stand. */
export interface BatchStanding {
  readonly statuses: Readonly<Partial<Record<RequestStatus, number>>>;
  /** Members that are blocked now, whether they were refused at first or were stopped since. */
  readonly blocked: readonly {
    readonly request_id: string;
    readonly position: number;
    readonly reason: string | null;
    /** Refused when it was submitted: it can only be cancelled. */
    readonly refused: boolean;
  }[];
  /** Lines whose subject had a live request: `twice` where that stands in the same batch. */
  readonly omissions: readonly {
    readonly position: number;
    readonly request_id: string;
    readonly twice: boolean;
  }[];
  readonly approvals: readonly {
    readonly approved_by: string;
    readonly members: number;
    readonly first_at: Date;
  }[];
}

/** @param limit - at most so many blocked members and lines that were left out. */
export async function readStanding({ db, t }: Queries, batchId: string, limit: number): Promise<BatchStanding> {
  const { rows: statuses } = await sql<{ status: RequestStatus; count: number }>`
    SELECT status, count(*)::integer AS count FROM ${t.requests}
     WHERE batch_id = ${batchId}::uuid GROUP BY status ORDER BY status`.execute(db);
  const { rows: blocked } = await sql<BatchStanding['blocked'][number]>`
    SELECT id AS request_id, batch_position AS position, blocked_reason AS reason, inventory_digest IS NULL AS refused
      FROM ${t.requests}
     WHERE batch_id = ${batchId}::uuid AND status = 'blocked' ORDER BY batch_position LIMIT ${limit}::integer`.execute(
    db,
  );
  const { rows: omissions } = await sql<BatchStanding['omissions'][number]>`
    SELECT o.position, o.request_id, coalesce(r.batch_id = o.batch_id, false) AS twice
      FROM ${t.omissions} o LEFT JOIN ${t.requests} r ON r.id = o.request_id
     WHERE o.batch_id = ${batchId}::uuid ORDER BY o.position LIMIT ${limit}::integer`.execute(db);
  const { rows: approvals } = await sql<BatchStanding['approvals'][number]>`
    SELECT a.approved_by, count(*)::integer AS members, min(a.approved_at) AS first_at
      FROM ${t.requests} r JOIN ${t.approvals} a ON a.request_id = r.id AND a.inventory_digest = r.inventory_digest
     WHERE r.batch_id = ${batchId}::uuid GROUP BY a.approved_by ORDER BY first_at, a.approved_by`.execute(db);
  const counts = Object.fromEntries(statuses.map(({ status, count }) => [status, count]));
  return { statuses: counts, blocked, omissions, approvals };
}
