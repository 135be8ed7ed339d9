/** Reading the record, for people. */
import { sql } from 'kysely';
import type { Queries } from '../storage/database.js';
import type { EventRow } from './events.js';
import type { ApprovalRow, RequestRow, RequestStatus } from './request.js';

export interface ListOptions {
  /** Null: those of every workflow. */
  readonly workflow: string | null;
  readonly status: RequestStatus | null;
  readonly limit: number;
}

/** Newest first (OP-8). */
export async function listRequests({ db, t }: Queries, options: ListOptions): Promise<readonly RequestRow[]> {
  const { rows } = await sql<RequestRow>`
    SELECT * FROM ${t.requests}
     WHERE (${options.workflow}::text IS NULL OR workflow = ${options.workflow}::text)
       AND (${options.status}::text IS NULL OR status = ${options.status}::text)
     ORDER BY created_at DESC, id DESC
     LIMIT ${options.limit}::integer`.execute(db);
  return rows;
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
