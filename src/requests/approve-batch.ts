/** A second person's consent to a whole batch: to exactly what its digest covers (OP-3, WF-8). */
import { sql } from 'kysely';
import { BatchDigest } from '../evidence/batch-digest.js';
import { type Queries, recordset } from '../storage/database.js';
import { type BatchRow, lockBatch } from './batch.js';
import { isSameOperator } from './operator.js';
import { type FirstInventory, readFirstInventories } from './read-batches.js';
import type { RequestStatus } from './request.js';
import { RecordIntegrityError, type RefusalCode, RequestRefusedError } from './request-error.js';

export interface BatchApproval {
  readonly batchId: string;
  readonly approvedBy: string;
  /** Of the batch. */
  readonly digest: string;
  /** The references that the approver would have as a subject. */
  readonly referencesOfApprover: readonly string[];
  /** What a batch may delete in all (WF-9). */
  readonly mostCopies: number;
}

export interface BatchApprovalResult {
  readonly batch_id: string;
  readonly approved_by: string;
  readonly digest: string;
  /** Members that this person has approved now. */
  readonly approved: number;
  /** Of those, members that have all the approvals that they need. */
  readonly ready: number;
  /** Members that were left out, by what they are. */
  readonly left_out: Readonly<Partial<Record<LeftOut, number>>>;
}

/** A status, a new revision that needs an approval of its own, or an earlier approval by the same person. */
type LeftOut = RequestStatus | 'revised' | 'approved_before';

/**
 * Approves every member that waits for approval, under the inventory that the batch's digest covers. What is blocked,
 * cancelled or revised meanwhile is left out. Each inventory is verified, and the batch's digest computed again, from the rows
 * as they stand: neither is believed. A constant number of statements for each page of members; call it inside a transaction.
 *
 * @param validate - throws unless the inventory is valid and has its stored digest.
 * @throws RequestRefusedError as OP-3 lists, RecordIntegrityError; nothing is changed then.
 */
export async function approveBatch(
  tx: Queries,
  approval: BatchApproval,
  validate: (batch: BatchRow, member: FirstInventory) => void,
): Promise<BatchApprovalResult> {
  const batch = await lockBatch(tx, approval.batchId);
  requireApprovable(batch, approval);
  await lockMembers(tx, batch.id);
  await requireStranger(tx, batch, approval);
  const self = await spellingsInUse(tx, approval);
  const leftOut = await readLeftOut(tx, batch.id, self);
  if (batch.members === sumOf(leftOut)) throw nothingToApprove(batch, self);
  const digest = new BatchDigest(batch.workflow, batch.workflow_version);
  let approved = 0;
  let ready = 0;
  for await (const page of readFirstInventories(tx, batch.id, { contents: true })) {
    for (const member of page) {
      validate(batch, member);
      digest.add({ position: member.position, digest: member.inventory_digest });
    }
    const written = await approvePage(tx, approval, page, self);
    approved += written.approved;
    ready += written.ready;
  }
  if (digest.end() !== batch.digest) throw changed(batch);
  await logApproval(tx, approval, approved);
  return {
    ...{ batch_id: batch.id, approved_by: approval.approvedBy, digest: approval.digest },
    ...{ approved, ready, left_out: leftOut },
  };
}

function requireApprovable(batch: BatchRow, approval: BatchApproval): void {
  if (batch.state === 'open') {
    throw refuse(
      'BATCH_OPEN',
      batch,
      'was not submitted to its end: repeat the same submit first, which goes on from there.',
    );
  }
  if (isSameOperator(approval.approvedBy, batch.requested_by)) {
    throw refuse('APPROVER_IS_REQUESTER', batch, 'was requested by the same person: somebody else has to approve it.');
  }
  if (batch.digest !== approval.digest) {
    throw refuse(
      'DIGEST_MISMATCH',
      batch,
      `has digest ${batch.digest ?? 'none'} and not the given one: review expunge show ${batch.id} and approve what it prints.`,
    );
  }
  if (batch.copies > approval.mostCopies) {
    throw refuse(
      'BOUNDS_EXCEEDED',
      batch,
      `would delete ${batch.copies} copies, and bounds.batch allows ${approval.mostCopies}: cancel it, or raise the bound.`,
    );
  }
}

/** All of them, in the order of their ids, before anything else is read. */
async function lockMembers(tx: Queries, batchId: string): Promise<void> {
  await sql`
    SELECT count(*) FROM (
      SELECT FROM ${tx.t.requests} WHERE batch_id = ${batchId}::uuid ORDER BY id FOR UPDATE) AS locked`.execute(tx.db);
}

/** Whoever is one of the subjects must not stand in its record (WF-2). */
async function requireStranger(tx: Queries, batch: BatchRow, approval: BatchApproval): Promise<void> {
  const references = JSON.stringify(approval.referencesOfApprover);
  const { rows } = await sql`
    SELECT 1 FROM ${tx.t.requests}
     WHERE batch_id = ${batch.id}::uuid
       AND subject_reference = ANY (ARRAY(SELECT jsonb_array_elements_text(${references}::text::jsonb)))
     LIMIT 1`.execute(tx.db);
  if (rows.length > 0) {
    throw refuse(
      'INVALID_OPERATOR',
      batch,
      'is about the approver, too, who would stay in the record: give another id.',
    );
  }
}

/** The names under which this person has approved members before: letters are folded here, and not by the database's locale. */
async function spellingsInUse(tx: Queries, { batchId, approvedBy }: BatchApproval): Promise<readonly string[]> {
  const { rows } = await sql<{ approved_by: string }>`
    SELECT DISTINCT a.approved_by
      FROM ${tx.t.requests} r JOIN ${tx.t.approvals} a ON a.request_id = r.id
     WHERE r.batch_id = ${batchId}::uuid`.execute(tx.db);
  return rows.map(({ approved_by }) => approved_by).filter((name) => isSameOperator(name, approvedBy));
}

async function readLeftOut(
  tx: Queries,
  batchId: string,
  self: readonly string[],
): Promise<Readonly<Partial<Record<LeftOut, number>>>> {
  const { rows } = await sql<{ what: LeftOut; count: number }>`
    SELECT CASE WHEN r.status <> 'submitted' THEN r.status
                WHEN r.inventory_digest <> i.inventory_digest THEN 'revised' ELSE 'approved_before' END AS what,
           count(*)::integer AS count
      FROM ${tx.t.requests} r
      JOIN ${tx.t.inventories} i ON i.request_id = r.id AND i.revision = 1
     WHERE r.batch_id = ${batchId}::uuid
       AND (r.status <> 'submitted' OR r.inventory_digest <> i.inventory_digest
            OR EXISTS (SELECT FROM ${tx.t.approvals} a
                        WHERE a.request_id = r.id AND a.inventory_digest = r.inventory_digest
                          AND a.approved_by = ANY (${texts(self)})))
     GROUP BY what ORDER BY what`.execute(tx.db);
  return Object.fromEntries(rows.map(({ what, count }) => [what, count]));
}

function sumOf(counts: Readonly<Partial<Record<LeftOut, number>>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

async function approvePage(
  tx: Queries,
  { batchId, approvedBy }: BatchApproval,
  page: readonly FirstInventory[],
  self: readonly string[],
): Promise<{ readonly approved: number; readonly ready: number }> {
  const members = page.map(({ request_id, inventory_digest }) => ({ id: request_id, digest: inventory_digest }));
  const { rows } = await sql<{ approved: number; ready: number }>`
    WITH member AS MATERIALIZED (
      SELECT r.id, x.digest, r.approvals_required,
             1 + (SELECT count(*) FROM ${tx.t.approvals} a
                   WHERE a.request_id = r.id AND a.inventory_digest = x.digest) AS approvals
        FROM jsonb_to_recordset(${recordset(members)}) AS x (id uuid, digest text)
        JOIN ${tx.t.requests} r ON r.id = x.id
       WHERE r.status = 'submitted' AND r.inventory_digest = x.digest
         AND NOT EXISTS (SELECT FROM ${tx.t.approvals} a
                          WHERE a.request_id = r.id AND a.inventory_digest = x.digest
                            AND a.approved_by = ANY (${texts(self)}))
    ), given AS (
      INSERT INTO ${tx.t.approvals} (id, request_id, inventory_digest, approved_by)
      SELECT gen_random_uuid(), id, digest, ${approvedBy}::text FROM member
    ), moved AS (
      UPDATE ${tx.t.requests} r SET status = 'approved', next_attempt_at = NULL
        FROM member WHERE r.id = member.id AND member.approvals >= member.approvals_required
      RETURNING r.id
    ), logged AS (
      INSERT INTO ${tx.t.events} (request_id, event, actor, detail)
      SELECT id, 'approved', ${approvedBy}::text,
             jsonb_build_object('inventory_digest', digest, 'approvals', approvals, 'batch_id', ${batchId}::text)
        FROM member
    )
    SELECT (SELECT count(*) FROM member)::integer AS approved, (SELECT count(*) FROM moved)::integer AS ready`.execute(
    tx.db,
  );
  return rows[0] ?? { approved: 0, ready: 0 };
}

async function logApproval(tx: Queries, approval: BatchApproval, approved: number): Promise<void> {
  await sql`
    INSERT INTO ${tx.t.events} (event, actor, detail)
    VALUES ('batch_approved', ${approval.approvedBy}::text,
            jsonb_build_object('batch_id', ${approval.batchId}::text, 'digest', ${approval.digest}::text,
                               'approved', ${approved}::integer))`.execute(tx.db);
}

function texts(values: readonly string[]) {
  return sql<string[]>`ARRAY(SELECT jsonb_array_elements_text(${JSON.stringify(values)}::text::jsonb))`;
}

function nothingToApprove(batch: BatchRow, self: readonly string[]): RequestRefusedError {
  if (self.length > 0) {
    return refuse(
      'ALREADY_APPROVED_BY',
      batch,
      `was approved by this person already: expunge show ${batch.id} tells whether it needs another one.`,
    );
  }
  return refuse(
    'NOT_AWAITING_APPROVAL',
    batch,
    `has no member that waits for this approval: expunge show ${batch.id} tells how they stand.`,
  );
}

function changed(batch: BatchRow): RecordIntegrityError {
  return new RecordIntegrityError(
    `The members of batch ${batch.id} do not have the digest that was stored when it was closed: a person has to look.`,
    batch.id,
  );
}

function refuse(code: RefusalCode, batch: BatchRow, what: string): RequestRefusedError {
  return new RequestRefusedError(code, `Batch ${batch.id} ${what}`);
}
