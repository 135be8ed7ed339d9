/** Everything that a decision is made from, read while the parents are locked. */
import { type RawBuilder, sql } from 'kysely';
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

export interface SnapshotItem {
  readonly requestId: string;
  readonly lease: Lease | null;
  /** What the last transition under the same lease left. */
  readonly known?: Snapshot | undefined;
}

/**
 * Locks the requests in the order of their ids, then reads what hangs from them in statements of their own: a statement's
 * snapshot is older than the lock that it waits for. At most four statements for any number of requests.
 *
 * Where all of them are known, only what can have changed is read: under a lease nobody else writes stages, a stage that was
 * left never changes, and others can but give an order. A long history would otherwise be read once for each of its stages.
 */
export async function lockSnapshots(
  tx: Queries,
  items: readonly SnapshotItem[],
): Promise<ReadonlyMap<string, LockedSnapshot>> {
  const known = new Map(items.flatMap((item) => (item.known === undefined ? [] : [[item.requestId, item.known]])));
  const areKnown = known.size === items.length;
  const locked = await lockRequests(tx, items, areKnown ? CHANGING : sql`locked.*`);
  const wanted = locked.map(({ id, ownership, standing_order }) => ({
    id,
    known: areKnown && ownership === 'own' ? known.get(id) : undefined,
    isOrdered: standing_order !== null,
  }));
  const parts = await readParts(tx, wanted);
  return new Map(
    locked.map((row) => {
      const { now, ownership, id } = row;
      const request = areKnown ? changed((known.get(id) as Snapshot).request, row) : (row as RequestRow);
      return [id, { request, now, ownership, ...parts(id) }];
    }),
  );
}

/** What an order, or a new revision, changes of a request whose worker goes from stage to stage. */
const CHANGING = sql`locked.id, locked.status, locked.standing_order, locked.inventory_digest`;

type Changing = Pick<RequestRow, 'id' | 'status' | 'standing_order' | 'inventory_digest'>;
type LockedRow = Pick<LockedSnapshot, 'now' | 'ownership'> & Changing & Partial<RequestRow>;

function changed(known: RequestRow, { status, standing_order, inventory_digest }: Changing): RequestRow {
  return { ...known, status, standing_order, inventory_digest };
}

async function lockRequests(
  tx: Queries,
  items: readonly SnapshotItem[],
  columns: RawBuilder<unknown>,
): Promise<readonly LockedRow[]> {
  const rows = items.map(({ requestId, lease }) => ({
    id: requestId,
    owner: lease?.owner,
    generation: lease?.generation,
  }));
  const { rows: locked } = await sql<LockedRow>`
    WITH input AS MATERIALIZED (
      SELECT * FROM jsonb_to_recordset(${recordset(rows)}) AS x (id uuid, owner text, generation bigint)
    ), locked AS MATERIALIZED (
      SELECT r.* FROM ${tx.t.requests} r WHERE r.id IN (SELECT id FROM input) ORDER BY r.id FOR UPDATE
    ), clock AS MATERIALIZED (
      -- An aggregate answers when its input is complete: this clock is read after the last of the locks was had.
      SELECT clock_timestamp() AS now, count(*) FROM locked
    )
    SELECT ${columns}, clock.now,
           CASE WHEN locked.lease_owner IS NULL OR locked.lease_expires_at <= clock.now THEN 'free'
                WHEN locked.lease_owner = input.owner AND locked.lease_generation = input.generation THEN 'own'
                ELSE 'foreign' END AS ownership
      FROM locked JOIN input USING (id) CROSS JOIN clock`.execute(tx.db);
  return locked;
}

/** The same without locks, for reading: what `expunge show` prints. Null when there is no such request. */
export async function readSnapshot(queries: Queries, id: string): Promise<Snapshot | null> {
  const { rows } = await sql<RequestRow & { now: Date }>`
    SELECT r.*, clock_timestamp() AS now FROM ${queries.t.requests} r WHERE r.id = ${id}::uuid`.execute(queries.db);
  if (rows[0] === undefined) return null;
  const { now, ...request } = rows[0];
  const parts = await readParts(queries, [{ id, known: undefined, isOrdered: false }]);
  return { request, now, ...parts(id) };
}

type Parts = Pick<Snapshot, 'inventories' | 'stages' | 'orders'>;

interface Wanted {
  readonly id: string;
  readonly known: Snapshot | undefined;
  /** Whether an order stands: those that are known may not be all of them then. */
  readonly isOrdered: boolean;
}

async function readParts(queries: Queries, wanted: readonly Wanted[]): Promise<(id: string) => Parts> {
  const { db, t } = queries;
  const ids = wanted.map(({ id }) => id);
  const { rows: inventories } = await sql<InventoryRow>`
    SELECT request_id, revision, inventory, inventory_digest
      FROM ${t.inventories} WHERE request_id = ANY (${uuids(ids)}) ORDER BY request_id, revision`.execute(db);
  const stages = await readStages(queries, wanted);
  const orders = await readOrders(
    queries,
    wanted.filter(({ known, isOrdered }) => known === undefined || isOrdered),
  );
  const byRequest = { inventories: group(inventories), stages: group(stages), orders: group(orders) };
  const known = new Map(wanted.map((item) => [item.id, item.known]));
  return (id) => ({
    inventories: sameObjects(byRequest.inventories.get(id) ?? [], known.get(id)?.inventories ?? []),
    stages: [...leftStages(known.get(id)), ...(byRequest.stages.get(id) ?? [])],
    orders: byRequest.orders.get(id) ?? known.get(id)?.orders ?? [],
  });
}

async function readOrders({ db, t }: Queries, wanted: readonly Wanted[]): Promise<readonly OrderRow[]> {
  if (wanted.length === 0) return [];
  const { rows } = await sql<OrderRow>`
    SELECT id, request_id, kind, ordered_by, reason, ordered_at, until, ended_at
      FROM ${t.orders} WHERE request_id = ANY (${uuids(wanted.map(({ id }) => id))})
     ORDER BY ordered_at, id`.execute(db);
  return rows;
}

async function readStages({ db, t }: Queries, wanted: readonly Wanted[]): Promise<readonly StageRow[]> {
  const whole = wanted.filter(({ known }) => known === undefined).map(({ id }) => id);
  const current = wanted.filter(({ known }) => known !== undefined).map(({ id }) => id);
  const columns = sql.raw(STAGE_COLUMNS);
  const { rows } = await sql<StageRow>`
    SELECT ${columns}
      FROM unnest(${uuids(whole)}) AS wanted (id)
     CROSS JOIN LATERAL (
           -- One more than the most: enough to see that there are too many, and no way to fill the memory.
           SELECT * FROM ${t.stages} h WHERE h.request_id = wanted.id LIMIT ${LONGEST_HISTORY + 1}::integer) s
     UNION ALL
    SELECT ${columns} FROM ${t.stages} s WHERE s.request_id = ANY (${uuids(current)}) AND s.is_current`.execute(db);
  return rows;
}

const STAGE_COLUMNS = `s.id, s.request_id, s.stage, s.target_community_id, s.status, s.is_current, s.started_at, s.finished_at,
           s.attempts, s.metadata_json, s.last_error`;

function leftStages(known: Snapshot | undefined): readonly StageRow[] {
  return known?.stages.filter(({ is_current }) => !is_current) ?? [];
}

/** Inventories that are read again and are the same stay the same objects: whoever has verified one need not do it again. */
function sameObjects(read: readonly InventoryRow[], known: readonly InventoryRow[]): readonly InventoryRow[] {
  return read.map((row) => {
    const before = known.find(({ revision }) => revision === row.revision);
    return before !== undefined && isSame(before, row) ? before : row;
  });
}

/** jsonb prints its keys in one order, so that equal documents are equal texts. */
function isSame(one: InventoryRow, other: InventoryRow): boolean {
  return (
    one.inventory_digest === other.inventory_digest && JSON.stringify(one.inventory) === JSON.stringify(other.inventory)
  );
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
