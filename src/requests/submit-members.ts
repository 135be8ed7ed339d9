/** Writes one part of a batch: its requests, what was left out, and how far it has come, all or nothing (WF-8). */
import { sql } from 'kysely';
import { type Queries, recordset } from '../storage/database.js';
import { lockBatch } from './batch.js';
import { RequestRefusedError } from './request-error.js';
import { type NewRequest, submit } from './submit.js';

export interface BatchPart {
  readonly batchId: string;
  /** Members as new requests, each with its `batch`. */
  readonly requests: readonly (NewRequest & { readonly copies: number })[];
  /** The last line of this part. */
  readonly lastPosition: number;
  /** What the inventories of one batch may count in all. */
  readonly mostCopies: number;
}

/**
 * Writes what was not written yet, in a constant number of statements. A subject that has a live request is left out, and
 * noted with its line. Call it inside a transaction; it may be sent again.
 * @returns the last line that is written now, by this call or by another one of the same submit.
 * @throws RequestRefusedError BOUNDS_EXCEEDED where the batch would delete more than it may (WF-9).
 */
export async function submitMembers(tx: Queries, part: BatchPart): Promise<number> {
  const batch = await lockBatch(tx, part.batchId);
  if (batch.state === 'closed' || batch.last_position >= part.lastPosition) {
    return batch.last_position;
  }
  const requests = part.requests.filter(({ batch: own }) => (own?.position ?? 0) > batch.last_position);
  const results = await submit(tx, requests);
  const submitted = requests.filter((_request, index) => results[index]?.kind === 'submitted');
  const copies = submitted.reduce((sum, request) => sum + request.copies, batch.copies);
  if (copies > part.mostCopies) throw tooMany(part, copies);
  const omissions = requests.flatMap(({ batch: own }, index) => {
    const result = results[index];
    if (own === undefined || result === undefined || result.kind === 'submitted') return [];
    return [{ position: own.position, request_id: result.existing }];
  });
  if (omissions.length > 0) await insertOmissions(tx, batch.id, omissions);
  const refused = submitted.filter(({ refusal }) => refusal !== undefined).length;
  await sql`
    UPDATE ${tx.t.batches}
       SET last_position = ${part.lastPosition}::integer,
           members = members + ${submitted.length - refused}::integer,
           refused = refused + ${refused}::integer,
           left_out = left_out + ${omissions.length}::integer,
           copies = ${copies}::bigint
     WHERE id = ${batch.id}::uuid`.execute(tx.db);
  return part.lastPosition;
}

function tooMany({ batchId, mostCopies, lastPosition }: BatchPart, copies: number): RequestRefusedError {
  return new RequestRefusedError(
    'BOUNDS_EXCEEDED',
    `Batch ${batchId} would delete ${copies} copies with its lines up to ${lastPosition}, and bounds.batch allows ${mostCopies}: cancel it, or raise the bound and submit the same again.`,
  );
}

async function insertOmissions(
  tx: Queries,
  batchId: string,
  omissions: readonly { readonly position: number; readonly request_id: string }[],
): Promise<void> {
  await sql`
    INSERT INTO ${tx.t.omissions} (batch_id, position, request_id)
    SELECT ${batchId}::uuid, x.position, x.request_id
      FROM jsonb_to_recordset(${recordset(omissions)}) AS x (position integer, request_id uuid)`.execute(tx.db);
}
