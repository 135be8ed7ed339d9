/** Reading the record, for people. */
import { sql } from 'kysely';
import { type Queries, uuids } from '../storage/database.js';
import type { EventRow } from './events.js';
import type { ApprovalRow, InventoryRow, RequestRow, RequestStatus } from './request.js';

export interface ListOptions {
  /** Null: those of every workflow. */
  readonly workflow: string | null;
  readonly status: RequestStatus | null;
  /** Absent: those of any batch and of none. */
  readonly batch?: string;
  readonly limit: number;
}

/** Newest first (OP-8). */
export async function listRequests({ db, t }: Queries, options: ListOptions): Promise<readonly RequestRow[]> {
  const { rows } = await sql<RequestRow>`
    SELECT * FROM ${t.requests}
     WHERE (${options.workflow}::text IS NULL OR workflow = ${options.workflow}::text)
       AND (${options.status}::text IS NULL OR status = ${options.status}::text)
       AND (${options.batch ?? null}::uuid IS NULL OR batch_id = ${options.batch ?? null}::uuid)
     ORDER BY created_at DESC, id DESC
     LIMIT ${options.limit}::integer`.execute(db);
  return rows;
}

/** One request as it stands; null where there is none. */
export async function readRequest({ db, t }: Queries, requestId: string): Promise<RequestRow | null> {
  const { rows } = await sql<RequestRow>`SELECT * FROM ${t.requests} WHERE id = ${requestId}::uuid`.execute(db);
  return rows[0] ?? null;
}

export async function readApprovals({ db, t }: Queries, requestId: string): Promise<readonly ApprovalRow[]> {
  const { rows } = await sql<ApprovalRow>`
    SELECT id, request_id, inventory_digest, approved_by, approved_at
      FROM ${t.approvals} WHERE request_id = ${requestId}::uuid ORDER BY approved_at, id`.execute(db);
  return rows;
}

export async function readEvents({ db, t }: Queries, requestId: string): Promise<readonly EventRow[]> {
  const { rows } = await sql<EventRow>`
    SELECT id, request_id, at, event, actor, detail
      FROM ${t.events} WHERE request_id = ${requestId}::uuid ORDER BY id`.execute(db);
  return rows;
}

/** How many approvals of its current digest each request has that are younger than `maxAge` (an ISO 8601 duration). */
export async function countFreshApprovals(
  { db, t }: Queries,
  requestIds: readonly string[],
  maxAge: string,
): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql<{ id: string; fresh: number }>`
    SELECT r.id, count(a.id)::integer AS fresh
      FROM ${t.requests} r
      LEFT JOIN ${t.approvals} a
        ON a.request_id = r.id
       AND a.inventory_digest = r.inventory_digest
       AND a.approved_at > clock_timestamp() - ${maxAge}::interval
     WHERE r.id = ANY (${uuids(requestIds)})
     GROUP BY r.id`.execute(db);
  return new Map(rows.map(({ id, fresh }) => [id, fresh]));
}

/** Every approval of the requests, in the order in which they were given. */
export async function readApprovalsOf(
  { db, t }: Queries,
  requestIds: readonly string[],
): Promise<readonly ApprovalRow[]> {
  const { rows } = await sql<ApprovalRow>`
    SELECT id, request_id, inventory_digest, approved_by, approved_at
      FROM ${t.approvals} WHERE request_id = ANY (${uuids(requestIds)}) ORDER BY approved_at, id`.execute(db);
  return rows;
}

/** Every revision of the inventories of the requests. */
export async function readInventoriesOf(
  { db, t }: Queries,
  requestIds: readonly string[],
): Promise<readonly InventoryRow[]> {
  const { rows } = await sql<InventoryRow>`
    SELECT request_id, revision, inventory, inventory_digest
      FROM ${t.inventories} WHERE request_id = ANY (${uuids(requestIds)}) ORDER BY request_id, revision`.execute(db);
  return rows;
}
