/** Receipts as rows: appended in the order of their chain, one chain a request (WF-22). */
import { sql } from 'kysely';
import { type Queries, recordset, uuids } from '../storage/database.js';

export interface ReceiptRow {
  readonly id: string;
  readonly request_id: string;
  readonly sequence: number;
  /** Null for the final receipt. */
  readonly target: string | null;
  /** The signed receipt (JWS). */
  readonly receipt: string;
  readonly receipt_hash: string;
  readonly previous_hash: string | null;
}

export async function insertReceipts({ db, t }: Queries, receipts: readonly ReceiptRow[]): Promise<void> {
  if (receipts.length === 0) return;
  await sql`
    INSERT INTO ${t.receipts} (id, request_id, sequence, target, receipt, receipt_hash, previous_hash)
    SELECT x.id, x.request_id, x.sequence, x.target, x.receipt, x.receipt_hash, x.previous_hash
      FROM jsonb_to_recordset(${recordset(receipts.map((receipt) => ({ ...receipt })))}) AS x (
           id uuid, request_id uuid, sequence integer, target text, receipt text, receipt_hash text, previous_hash text)`.execute(
    db,
  );
}

/** In the order of the chain. */
export async function readReceipts({ db, t }: Queries, requestId: string): Promise<readonly ReceiptRow[]> {
  const { rows } = await sql<ReceiptRow>`
    SELECT id, request_id, sequence, target, receipt, receipt_hash, previous_hash
      FROM ${t.receipts} WHERE request_id = ${requestId}::uuid ORDER BY sequence`.execute(db);
  return rows;
}

/** The last receipt of each request that has one. */
export async function readLastReceipts(
  { db, t }: Queries,
  requestIds: readonly string[],
): Promise<ReadonlyMap<string, ReceiptRow>> {
  const { rows } = await sql<ReceiptRow>`
    SELECT DISTINCT ON (request_id) id, request_id, sequence, target, receipt, receipt_hash, previous_hash
      FROM ${t.receipts} WHERE request_id = ANY (${uuids(requestIds)}) ORDER BY request_id, sequence DESC`.execute(db);
  return new Map(rows.map((row) => [row.request_id, row]));
}
