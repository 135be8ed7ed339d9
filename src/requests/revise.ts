/** A new revision of an inventory, made by a person (WF-6): it waits for its own approval. */
import { sql } from 'kysely';
import type { Queries } from '../storage/database.js';
import type { JsonObject } from '../storage/json.js';
import { RequestRefusedError, unknownRequest } from './request-error.js';
import { lockSnapshots } from './snapshot.js';

export interface Revision {
  readonly requestId: string;
  /** The digest that the new revision was made from. */
  readonly from: string;
  readonly inventory: JsonObject;
  readonly inventoryDigest: string;
  readonly revisedBy: string;
}

/** Call it inside a transaction. @throws RequestRefusedError where a worker owns the request, or it changed meanwhile. */
export async function revise(tx: Queries, revision: Revision): Promise<{ readonly status: string }> {
  const { requestId } = revision;
  const snapshot = (await lockSnapshots(tx, [{ requestId, lease: null }])).get(requestId);
  if (snapshot === undefined) throw unknownRequest(requestId);
  const { request } = snapshot;
  if (request.status === 'completed' || request.status === 'cancelled') {
    throw new RequestRefusedError(
      'WRONG_STATUS',
      `Request ${requestId} is ${request.status}: nothing about it can be changed.`,
      requestId,
    );
  }
  if (snapshot.ownership !== 'free') {
    throw new RequestRefusedError(
      'LEASED',
      `Request ${requestId} is being worked on by ${request.lease_owner}: hold it first, and revise it then.`,
      requestId,
    );
  }
  if (request.inventory_digest !== revision.from) {
    throw new RequestRefusedError(
      'DIGEST_MISMATCH',
      `Request ${requestId} was revised by somebody else meanwhile: look at expunge show ${requestId}.`,
      requestId,
    );
  }
  const status = snapshot.stages.length > 0 ? 'awaiting_approval' : 'submitted';
  await sql`
    WITH added AS (
      INSERT INTO ${tx.t.inventories} (request_id, revision, inventory, inventory_digest)
      VALUES (${requestId}::uuid, ${snapshot.inventories.length + 1}::integer,
              ${JSON.stringify(revision.inventory)}::text::jsonb, ${revision.inventoryDigest}::text)
    ), moved AS (
      UPDATE ${tx.t.requests}
         SET inventory_digest = ${revision.inventoryDigest}::text,
             status = CASE WHEN status = 'held' THEN 'held' ELSE ${status}::text END,
             held_status = CASE WHEN status = 'held' THEN ${status}::text END,
             next_attempt_at = NULL, blocked_at = NULL, blocked_reason = NULL, retry_count = 0
       WHERE id = ${requestId}::uuid
    )
    INSERT INTO ${tx.t.events} (request_id, event, actor, detail)
    VALUES (${requestId}::uuid, 'revised', ${revision.revisedBy}::text,
            jsonb_build_object('inventory_digest', ${revision.inventoryDigest}::text))`.execute(tx.db);
  return { status };
}
