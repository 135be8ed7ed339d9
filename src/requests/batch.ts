/** A batch: many requests that were submitted from one file and are approved as one (WF-8). */
import { sql } from 'kysely';
import { v7 as uuidv7 } from 'uuid';
import type { Queries } from '../storage/database.js';
import { RequestRefusedError } from './request-error.js';

export interface BatchRow {
  readonly id: string;
  readonly workflow: string;
  readonly workflow_version: number;
  readonly requested_by: string;
  readonly reason_code: string | null;
  /** `open` until every line was read. */
  readonly state: 'open' | 'closed';
  /** The last line whose request is written. */
  readonly last_position: number;
  /** Requests that waited for approval when they were submitted. */
  readonly members: number;
  /** Requests that were refused, and are `blocked`. */
  readonly refused: number;
  /** Lines without a request of their own: their subject has a live one. */
  readonly left_out: number;
  /** What the inventories of the members count. */
  readonly copies: number;
  /** Over the members' digests; null while it is open. */
  readonly digest: string | null;
  readonly created_at: Date;
  readonly closed_at: Date | null;
}

/** All but the token of the submit, which means nothing to anybody else. */
export const BATCH_COLUMNS = sql`
  id, workflow, workflow_version, requested_by, reason_code, state, last_position, members, refused, left_out, copies,
  digest, created_at, closed_at`;

export interface NewBatch {
  readonly workflow: string;
  readonly workflowVersion: number;
  readonly requestedBy: string;
  readonly reasonCode: string | null;
  /** The same for the same subjects, submitted in the same way. */
  readonly submitToken: string;
}

/** The batch of this submit: a new one, or the one that an earlier call has begun. Two calls at once get the same. */
export async function openBatch(queries: Queries, batch: NewBatch): Promise<BatchRow> {
  const { db, t } = queries;
  const { rows } = await sql<BatchRow>`
    WITH opened AS (
      INSERT INTO ${t.batches} (id, workflow, workflow_version, requested_by, reason_code, submit_token)
      VALUES (${uuidv7()}::uuid, ${batch.workflow}::text, ${batch.workflowVersion}::integer, ${batch.requestedBy}::text,
              ${batch.reasonCode}::text, ${batch.submitToken}::text)
      ON CONFLICT DO NOTHING
      RETURNING *
    ), logged AS (
      INSERT INTO ${t.events} (event, actor, detail)
      SELECT 'batch_opened', requested_by, jsonb_build_object('batch_id', id) FROM opened
    )
    SELECT ${BATCH_COLUMNS} FROM opened`.execute(db);
  if (rows[0] !== undefined) return rows[0];
  const { rows: known } = await sql<BatchRow>`
    SELECT ${BATCH_COLUMNS} FROM ${t.batches}
     WHERE workflow = ${batch.workflow}::text AND submit_token = ${batch.submitToken}::text`.execute(db);
  return known[0] as BatchRow;
}

/** The batch as it stands; null where there is none. */
export async function readBatch({ db, t }: Queries, id: string): Promise<BatchRow | null> {
  const { rows } = await sql<BatchRow>`SELECT ${BATCH_COLUMNS} FROM ${t.batches} WHERE id = ${id}::uuid`.execute(db);
  return rows[0] ?? null;
}

/** Locks the batch until the transaction ends: whatever writes members or closes it comes one after the other. */
export async function lockBatch(tx: Queries, id: string): Promise<BatchRow> {
  const { rows } =
    await sql<BatchRow>`SELECT ${BATCH_COLUMNS} FROM ${tx.t.batches} WHERE id = ${id}::uuid FOR UPDATE`.execute(tx.db);
  if (rows[0] === undefined) throw unknownBatch(id);
  return rows[0];
}

export function unknownBatch(id: string): RequestRefusedError {
  return new RequestRefusedError('UNKNOWN_REQUEST', `There is no batch ${id}: expunge list shows what exists.`);
}
