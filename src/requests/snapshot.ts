/** Everything that a decision is made from, read while the parents are locked. */
import { sql } from 'kysely';
import { type Queries, recordset, uuids } from '../storage/database.js';
import type { InventoryRow, Lease, OrderRow, RequestRow, StageRow } from './request.js';

/** The most stages of one request: one that has more is not advanced (EX-12). */
export const LONGEST_HISTORY = 10_000;

export interface Snapshot {
  readonly request: RequestRow;
  /** The database's clock, read after the row was locked. */
  readonly now: Date;
  /** In the order of their revisions. */
  readonly inventories: readonly InventoryRow[];
  /** In no order: history is rebuilt by the chain of ids. At most one more than `LONGEST_HISTORY` of them. */
  readonly stages: readonly StageRow[];
  readonly orders: readonly OrderRow[];
}

export interface LockedSnapshot extends Snapshot {
  /** `own`: the given lease is valid. `free`: nobody has a valid one. `foreign`: somebody else has. */
  readonly ownership: 'own' | 'free' | 'foreign';
}

/**
 * Locks the requests in the order of their ids, then reads what hangs from them in statements of their own: a statement's
 * snapshot is older than the lock that it waits for. Four statements for any number of requests.
 */
export async function lockSnapshots(
  tx: Queries,
  items: readonly { readonly requestId: string; readonly lease: Lease | null }[],
): Promise<ReadonlyMap<string, LockedSnapshot>> {
  const rows = items.map(({ requestId, lease }) => ({
    id: requestId,
    owner: lease?.owner ?? null,
    generation: lease?.generation ?? null,
  }));
  const { rows: locked } = await sql<RequestRow & { now: Date; ownership: LockedSnapshot['ownership'] }>`
    WITH input AS MATERIALIZED (
      SELECT * FROM jsonb_to_recordset(${recordset(rows)}) AS x (id uuid, owner text, generation bigint)
    ), locked AS MATERIALIZED (
      SELECT r.* FROM ${tx.t.requests} r WHERE r.id IN (SELECT id FROM input) ORDER BY r.id FOR UPDATE
    ), clock AS MATERIALIZED (
      -- An aggregate answers when its input is complete: this clock is read after the last of the locks was had.
      SELECT clock_timestamp() AS now, count(*) FROM locked
    )
    SELECT locked.*, clock.now,
           CASE WHEN locked.lease_owner IS NULL OR locked.lease_expires_at <= clock.now THEN 'free'
                WHEN locked.lease_owner = input.owner AND locked.lease_generation = input.generation THEN 'own'
                ELSE 'foreign' END AS ownership
      FROM locked JOIN input USING (id) CROSS JOIN clock`.execute(tx.db);
  const parts = await readParts(
    tx,
    locked.map(({ id }) => id),
  );
  return new Map(
    locked.map(({ now, ownership, ...request }) => [request.id, { request, now, ownership, ...parts(request.id) }]),
  );
}

/** The same without locks, for reading: what `expunge show` prints. Null when there is no such request. */
export async function readSnapshot(queries: Queries, id: string): Promise<Snapshot | null> {
  const { rows } = await sql<RequestRow & { now: Date }>`
    SELECT r.*, clock_timestamp() AS now FROM ${queries.t.requests} r WHERE r.id = ${id}::uuid`.execute(queries.db);
  if (rows[0] === undefined) return null;
  const { now, ...request } = rows[0];
  const parts = await readParts(queries, [id]);
  return { request, now, ...parts(id) };
}

type Parts = Pick<Snapshot, 'inventories' | 'stages' | 'orders'>;

async function readParts({ db, t }: Queries, ids: readonly string[]): Promise<(id: string) => Parts> {
  const { rows: inventories } = await sql<InventoryRow>`
    SELECT request_id, revision, inventory, inventory_digest
      FROM ${t.inventories} WHERE request_id = ANY (${uuids(ids)}) ORDER BY request_id, revision`.execute(db);
  const { rows: stages } = await sql<StageRow>`
    SELECT s.id, s.request_id, s.stage, s.target_community_id, s.status, s.is_current, s.started_at, s.finished_at,
           s.attempts, s.metadata_json, s.last_error
      FROM unnest(${uuids(ids)}) AS wanted (id)
     CROSS JOIN LATERAL (
           -- One more than the most: enough to see that there are too many, and no way to fill the memory.
           SELECT * FROM ${t.stages} h WHERE h.request_id = wanted.id LIMIT ${LONGEST_HISTORY + 1}::integer) s`.execute(
    db,
  );
  const { rows: orders } = await sql<OrderRow>`
    SELECT id, request_id, kind, ordered_by, reason, ordered_at, until, ended_at
      FROM ${t.orders} WHERE request_id = ANY (${uuids(ids)}) ORDER BY ordered_at, id`.execute(db);
  const byRequest = { inventories: group(inventories), stages: group(stages), orders: group(orders) };
  return (id) => ({
    inventories: byRequest.inventories.get(id) ?? [],
    stages: byRequest.stages.get(id) ?? [],
    orders: byRequest.orders.get(id) ?? [],
  });
}

function group<R extends { readonly request_id: string }>(rows: readonly R[]): ReadonlyMap<string, R[]> {
  const groups = new Map<string, R[]>();
  for (const row of rows) {
    const group = groups.get(row.request_id);
    if (group === undefined) groups.set(row.request_id, [row]);
    else group.push(row);
  }
  return groups;
}
