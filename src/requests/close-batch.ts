/** Closes a batch when its last line is written: from then on it can be approved, and has a digest (WF-8). */
import { sql } from 'kysely';
import { BatchDigest } from '../evidence/batch-digest.js';
import type { Queries } from '../storage/database.js';
import { BATCH_COLUMNS, type BatchRow, lockBatch } from './batch.js';
import { readFirstInventories } from './read-batches.js';

/** Call it inside a transaction. One that is closed already is answered as it is. */
export async function closeBatch(tx: Queries, id: string): Promise<BatchRow> {
  const batch = await lockBatch(tx, id);
  if (batch.state === 'closed') return batch;
  const digest = await digestOfBatch(tx, batch);
  const { rows } = await sql<BatchRow>`
    WITH closed AS (
      UPDATE ${tx.t.batches} SET state = 'closed', digest = ${digest}::text, closed_at = clock_timestamp()
       WHERE id = ${id}::uuid
      RETURNING *
    ), logged AS (
      INSERT INTO ${tx.t.events} (event, actor, detail)
      SELECT 'batch_closed', requested_by,
             jsonb_build_object('batch_id', id, 'digest', digest, 'members', members, 'refused', refused, 'left_out', left_out)
        FROM closed
    )
    SELECT ${BATCH_COLUMNS} FROM closed`.execute(tx.db);
  return rows[0] as BatchRow;
}

/** From the rows as they stand. */
async function digestOfBatch(tx: Queries, batch: BatchRow): Promise<string> {
  const digest = new BatchDigest(batch.workflow, batch.workflow_version);
  for await (const page of readFirstInventories(tx, batch.id, { contents: false })) {
    for (const { position, inventory_digest } of page) digest.add({ position, digest: inventory_digest });
  }
  return digest.end();
}
