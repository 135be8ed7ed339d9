/** A second person's consent to exactly one digest (EX-1, OP-3). */
import { sql } from 'kysely';
import { v7 as uuidv7 } from 'uuid';
import type { Queries } from '../storage/database.js';
import { isSameOperator } from './operator.js';
import { endDueHold } from './orders.js';
import type { InventoryRow, RequestRow } from './request.js';
import { RequestRefusedError, unknownRequest } from './request-error.js';

export interface Approval {
  readonly requestId: string;
  readonly approvedBy: string;
  readonly inventoryDigest: string;
}

export interface ApprovalResult {
  readonly id: string;
  readonly request_id: string;
  readonly approved_by: string;
  readonly approved_at: Date;
  readonly inventory_digest: string;
  /** The request's status afterwards. */
  readonly status: string;
  readonly approvals: number;
  readonly approvals_required: number;
}

/**
 * Saves the approval and, with the last one that is required, moves the request on: to `approved`, or back to `running`
 * where it has stages already. Creates no stage. Call it inside a transaction.
 *
 * @param validate - throws unless the current inventory is valid and has the stored digest.
 * @throws RequestRefusedError as OP-3 lists; nothing is changed then.
 */
export async function approve(
  tx: Queries,
  approval: Approval,
  validate: (request: RequestRow, inventory: InventoryRow) => void,
): Promise<ApprovalResult> {
  await endDueHold(tx, approval.requestId);
  const request = await lockRequest(tx, approval.requestId);
  if (request === null) throw unknownRequest(approval.requestId);
  if (request.inventory_digest === approval.inventoryDigest) await requireNewApprover(tx, approval, request);
  if (request.status !== 'submitted' && request.status !== 'awaiting_approval') {
    throw refuse(
      'NOT_AWAITING_APPROVAL',
      request,
      `is ${request.status} and not awaiting approval: expunge show ${request.id} tells its state.`,
    );
  }
  if (isSameOperator(approval.approvedBy, request.requested_by)) {
    throw refuse(
      'APPROVER_IS_REQUESTER',
      request,
      'was requested by the same person: somebody else has to approve it.',
    );
  }
  const inventory = await currentInventory(tx, request);
  if (inventory === null || inventory.inventory_digest !== approval.inventoryDigest) {
    throw refuse(
      'DIGEST_MISMATCH',
      request,
      `has inventory digest ${request.inventory_digest ?? 'none yet'} and not the given one: review expunge show ${request.id} and approve what it prints.`,
    );
  }
  validate(request, inventory);
  return insertApproval(tx, approval, request);
}

async function lockRequest(tx: Queries, id: string): Promise<RequestRow | null> {
  const { rows } = await sql<RequestRow>`SELECT * FROM ${tx.t.requests} WHERE id = ${id}::uuid FOR UPDATE`.execute(
    tx.db,
  );
  return rows[0] ?? null;
}

/** The revision that the request names, which is the one that would be run. */
async function currentInventory(tx: Queries, request: RequestRow): Promise<InventoryRow | null> {
  const { rows } = await sql<InventoryRow>`
    SELECT request_id, revision, inventory, inventory_digest
      FROM ${tx.t.inventories}
     WHERE request_id = ${request.id}::uuid AND inventory_digest = ${request.inventory_digest}::text`.execute(tx.db);
  return rows[0] ?? null;
}

/**
 * The database's own index on names folds letters by its locale, which in some knows ASCII only; it is the second line.
 * Asked before the status, because that is what a person who approves again has to be told.
 */
async function requireNewApprover(tx: Queries, approval: Approval, request: RequestRow): Promise<void> {
  const { rows } = await sql<{ approved_by: string }>`
    SELECT approved_by FROM ${tx.t.approvals}
     WHERE request_id = ${request.id}::uuid AND inventory_digest = ${approval.inventoryDigest}::text`.execute(tx.db);
  if (rows.some(({ approved_by }) => isSameOperator(approved_by, approval.approvedBy))) throw alreadyApproved(request);
}

async function insertApproval(tx: Queries, approval: Approval, request: RequestRow): Promise<ApprovalResult> {
  const { rows } = await sql<{ id: string; approved_at: Date }>`
    INSERT INTO ${tx.t.approvals} (id, request_id, inventory_digest, approved_by)
    VALUES (${uuidv7()}::uuid, ${request.id}::uuid, ${approval.inventoryDigest}::text, ${approval.approvedBy}::text)
    ON CONFLICT DO NOTHING
    RETURNING id, approved_at`.execute(tx.db);
  const saved = rows[0];
  if (saved === undefined) throw alreadyApproved(request);
  const { rows: moved } = await sql<{ status: string; approvals: number }>`
    WITH given AS (
      SELECT count(*)::integer AS approvals FROM ${tx.t.approvals}
       WHERE request_id = ${request.id}::uuid AND inventory_digest = ${approval.inventoryDigest}::text
    ), moved AS (
      UPDATE ${tx.t.requests} r
         SET status = CASE WHEN EXISTS (SELECT FROM ${tx.t.stages} s WHERE s.request_id = r.id)
                           THEN 'running' ELSE 'approved' END,
             next_attempt_at = NULL
        FROM given
       WHERE r.id = ${request.id}::uuid AND given.approvals >= r.approvals_required
      RETURNING r.status
    ), logged AS (
      INSERT INTO ${tx.t.events} (request_id, event, actor, detail)
      SELECT ${request.id}::uuid, 'approved', ${approval.approvedBy}::text,
             jsonb_build_object('inventory_digest', ${approval.inventoryDigest}::text, 'approvals', given.approvals)
        FROM given
    )
    SELECT coalesce((SELECT status FROM moved), ${request.status}::text) AS status, given.approvals FROM given`.execute(
    tx.db,
  );
  return {
    id: saved.id,
    request_id: request.id,
    approved_by: approval.approvedBy,
    approved_at: saved.approved_at,
    inventory_digest: approval.inventoryDigest,
    status: moved[0]?.status ?? request.status,
    approvals: moved[0]?.approvals ?? 1,
    approvals_required: request.approvals_required,
  };
}

function alreadyApproved(request: RequestRow): RequestRefusedError {
  return refuse(
    'ALREADY_APPROVED_BY',
    request,
    `was approved by this person already: expunge show ${request.id} tells whether it needs another one.`,
  );
}

function refuse(
  code: ConstructorParameters<typeof RequestRefusedError>[0],
  request: RequestRow,
  what: string,
): RequestRefusedError {
  return new RequestRefusedError(code, `Request ${request.id} ${what}`, request.id);
}
