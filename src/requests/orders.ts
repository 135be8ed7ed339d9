/** What operators order: hold, cancel, unblock (OP-9, WF-30). Reasons are theirs and stay out of the event log. */
import { sql } from 'kysely';
import { v7 as uuidv7 } from 'uuid';
import type { Queries } from '../storage/database.js';
import { storableText } from '../storage/storable.js';
import { RequestRefusedError, unknownRequest } from './request-error.js';
import type { RequestStatus } from './request.js';
import { lockSnapshots, type LockedSnapshot, type Snapshot } from './snapshot.js';
import { transition, type TransitionResult, type TransitionRules } from './transition.js';

export interface Order {
  readonly requestId: string;
  readonly orderedBy: string;
  readonly reason: string;
}

/** What an order did: at once, or at the owner's next save or transition. */
export interface OrderResult {
  readonly id: string;
  readonly status: RequestStatus;
  /** The worker that will act on it; null when it took effect at once. */
  readonly pending_with: string | null;
}

/** The longest reason, in bytes: it is about operations, not a place to keep data. */
const REASON_BYTES = 500;

/**
 * Cancels a request, as long as its policy lets it. Call it inside a transaction.
 * @param mayCancel - throws RequestRefusedError POINT_OF_NO_RETURN when it is too late.
 */
export async function cancel(
  tx: Queries,
  order: Order,
  mayCancel: (snapshot: Snapshot) => void,
  rules: TransitionRules,
): Promise<OrderResult> {
  const snapshot = await lockLive(tx, order.requestId);
  if (snapshot.request.standing_order === 'cancel') {
    throw new RequestRefusedError(
      'ORDER_STANDS',
      `Request ${order.requestId} is being cancelled already: wait for its worker.`,
      order.requestId,
    );
  }
  mayCancel(snapshot);
  await insertOrder(tx, 'cancel', order, null);
  await sql`
    UPDATE ${tx.t.requests}
       SET standing_order = 'cancel',
           -- A cancel ends a hold: what it undoes must not wait for it.
           status = coalesce(held_status, status), held_status = NULL
     WHERE id = ${order.requestId}::uuid`.execute(tx.db);
  if (snapshot.ownership !== 'free') return pendingWith(snapshot);
  const results = await transition(tx, [{ requestId: order.requestId, lease: null, expectedStageId: null }], rules);
  return { id: order.requestId, status: statusAfter(results.get(order.requestId)), pending_with: null };
}

/** Pauses a request until a time or until `endHold`; its deadline goes on. Call it inside a transaction. */
export async function hold(tx: Queries, order: Order, until: Date | null): Promise<OrderResult> {
  const snapshot = await lockLive(tx, order.requestId);
  if (snapshot.request.standing_order !== null) {
    throw new RequestRefusedError(
      'ORDER_STANDS',
      `Request ${order.requestId} has a ${snapshot.request.standing_order} standing: end it first.`,
      order.requestId,
    );
  }
  if (until !== null && until <= snapshot.now) {
    throw new RequestRefusedError(
      'INVALID_ORDER',
      `The hold would end at ${until.toISOString()}, which is past: give a later time.`,
      order.requestId,
    );
  }
  await insertOrder(tx, 'hold', order, until);
  const isFree = snapshot.ownership === 'free';
  await sql`
    UPDATE ${tx.t.requests}
       SET standing_order = 'hold',
           held_status = CASE WHEN ${isFree}::boolean THEN status END,
           status = CASE WHEN ${isFree}::boolean THEN 'held' ELSE status END
     WHERE id = ${order.requestId}::uuid`.execute(tx.db);
  return isFree ? { id: order.requestId, status: 'held', pending_with: null } : pendingWith(snapshot);
}

/** Ends a hold early. Call it inside a transaction. */
export async function endHold(tx: Queries, requestId: string, endedBy: string): Promise<OrderResult> {
  const snapshot = await lockLive(tx, requestId);
  if (snapshot.request.standing_order !== 'hold') {
    throw new RequestRefusedError(
      'WRONG_STATUS',
      `Request ${requestId} is ${snapshot.request.status} and not held.`,
      requestId,
    );
  }
  await liftHolds(tx, [requestId], endedBy);
  return { id: requestId, status: snapshot.request.held_status ?? snapshot.request.status, pending_with: null };
}

/** Ends the holds whose time has come, by the database's clock, and returns their requests. */
export async function endDueHolds(tx: Queries): Promise<readonly string[]> {
  const { rows } = await sql<{ id: string }>`
    SELECT r.id FROM ${tx.t.requests} r
     WHERE r.standing_order = 'hold'
       AND r.id IN (SELECT o.request_id FROM ${tx.t.orders} o
                     WHERE o.kind = 'hold' AND o.ended_at IS NULL AND o.until <= (SELECT clock_timestamp()))
     ORDER BY r.id
     LIMIT 1000
       FOR UPDATE SKIP LOCKED`.execute(tx.db);
  const ids = rows.map(({ id }) => id);
  if (ids.length > 0) await liftHolds(tx, ids, null);
  return ids;
}

/** Lets a blocked request go on. What went wrong stays in its history. Call it inside a transaction. */
export async function unblock(tx: Queries, order: Order): Promise<OrderResult> {
  const snapshot = await lockLive(tx, order.requestId);
  if (snapshot.request.status !== 'blocked') {
    throw new RequestRefusedError(
      'WRONG_STATUS',
      `Request ${order.requestId} is ${snapshot.request.status} and not blocked.`,
      order.requestId,
    );
  }
  await insertOrder(tx, 'unblock', order, null);
  const status: RequestStatus = snapshot.stages.length > 0 ? 'running' : 'approved';
  await sql`
    UPDATE ${tx.t.requests}
       SET status = ${status}::text, retry_count = 0, next_attempt_at = NULL, blocked_at = NULL, blocked_reason = NULL
     WHERE id = ${order.requestId}::uuid`.execute(tx.db);
  return { id: order.requestId, status, pending_with: null };
}

async function lockLive(tx: Queries, requestId: string): Promise<LockedSnapshot> {
  const snapshot = (await lockSnapshots(tx, [{ requestId, lease: null }])).get(requestId);
  if (snapshot === undefined) throw unknownRequest(requestId);
  const { status } = snapshot.request;
  if (status === 'completed' || status === 'cancelled') {
    throw new RequestRefusedError(
      'WRONG_STATUS',
      `Request ${requestId} is ${status}: nothing about it can be changed.`,
      requestId,
    );
  }
  return snapshot;
}

async function insertOrder(tx: Queries, kind: 'hold' | 'cancel' | 'unblock', order: Order, until: Date | null) {
  const ended = kind === 'unblock';
  await sql`
    WITH ordered AS (
      INSERT INTO ${tx.t.orders} (id, request_id, kind, ordered_by, reason, until, ended_at)
      VALUES (${uuidv7()}::uuid, ${order.requestId}::uuid, ${kind}::text, ${order.orderedBy}::text,
              ${storableText(order.reason, REASON_BYTES)}::text, ${until?.toISOString() ?? null}::timestamptz,
              CASE WHEN ${ended}::boolean THEN clock_timestamp() END)
    )
    INSERT INTO ${tx.t.events} (request_id, event, actor, detail)
    VALUES (${order.requestId}::uuid, ${`${kind}_ordered`}::text, ${order.orderedBy}::text,
            jsonb_strip_nulls(jsonb_build_object('until', ${until?.toISOString() ?? null}::text)))`.execute(tx.db);
}

async function liftHolds(tx: Queries, ids: readonly string[], endedBy: string | null): Promise<void> {
  const list = JSON.stringify(ids);
  await sql`
    WITH wanted AS (SELECT value::uuid AS id FROM jsonb_array_elements_text(${list}::text::jsonb)),
    ended AS (
      UPDATE ${tx.t.orders} o SET ended_at = clock_timestamp()
        FROM wanted WHERE o.request_id = wanted.id AND o.kind = 'hold' AND o.ended_at IS NULL
    ), lifted AS (
      UPDATE ${tx.t.requests} r
         SET standing_order = NULL, status = coalesce(r.held_status, r.status), held_status = NULL
        FROM wanted WHERE r.id = wanted.id AND r.standing_order = 'hold'
      RETURNING r.id
    )
    INSERT INTO ${tx.t.events} (request_id, event, actor)
    SELECT id, 'hold_ended', ${endedBy}::text FROM lifted`.execute(tx.db);
}

function pendingWith(snapshot: LockedSnapshot): OrderResult {
  const { id, status, lease_owner } = snapshot.request;
  return { id, status, pending_with: lease_owner };
}

function statusAfter(result: TransitionResult | undefined): RequestStatus {
  switch (result?.kind) {
    case 'ended':
    case 'waiting':
      return result.status;
    case 'current':
      return 'running';
    case 'error':
      throw result.error;
    case 'stale':
    case undefined:
      throw new Error('A locked request changed hands while it was cancelled.');
  }
}
