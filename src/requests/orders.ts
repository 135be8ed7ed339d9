/** What operators order: hold, cancel, unblock (OP-9, WF-30). Reasons are theirs and stay out of the event log. */
import { sql } from 'kysely';
import { v7 as uuidv7 } from 'uuid';
import { type Queries, uuids } from '../storage/database.js';
import { storableText } from '../storage/storable.js';
import { neverApprovable, RequestRefusedError, unknownRequest } from './request-error.js';
import type { RequestStatus } from './request.js';
import { lockSnapshots, type LockedSnapshot, type Snapshot } from './snapshot.js';
import type { TransitionResult, TransitionRules } from './move.js';
import { transition } from './transition.js';

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
 * Cancels a request, as long as its policy lets it. A cancel that was left standing, because the worker that should have
 * acted on it is gone, is carried out now. Call it inside a transaction.
 * @param mayCancel - throws RequestRefusedError POINT_OF_NO_RETURN when it is too late.
 */
export async function cancel(
  tx: Queries,
  order: Order,
  mayCancel: (snapshot: Snapshot) => void,
  rules: TransitionRules,
): Promise<OrderResult> {
  const snapshot = await lockLive(tx, order.requestId);
  const isFree = snapshot.ownership === 'free';
  if (snapshot.request.standing_order !== 'cancel') {
    mayCancel(snapshot);
    // A cancel ends a hold: what it undoes must not wait for it.
    if (snapshot.request.standing_order === 'hold') await liftHolds(tx, [order.requestId], order.orderedBy);
    await insertOrder(tx, 'cancel', order, null);
    await sql`UPDATE ${tx.t.requests} SET standing_order = 'cancel' WHERE id = ${order.requestId}::uuid`.execute(tx.db);
  } else if (!isFree) {
    throw new RequestRefusedError(
      'ORDER_STANDS',
      `Request ${order.requestId} is being cancelled already: wait for its worker.`,
      order.requestId,
    );
  }
  if (!isFree) return pendingWith(snapshot);
  const results = await transition(tx, [{ requestId: order.requestId, lease: null, expectedStageId: null }], rules);
  return { id: order.requestId, status: statusAfter(results.get(order.requestId)), pending_with: null };
}

/** Pauses a request until a time or until `endHold`; its deadline goes on. Call it inside a transaction. */
export async function hold(tx: Queries, order: Order, until: Date | null): Promise<OrderResult> {
  await endDueHold(tx, order.requestId);
  const snapshot = await lockLive(tx, order.requestId);
  if (snapshot.request.standing_order !== null) {
    throw new RequestRefusedError(
      'ORDER_STANDS',
      `Request ${order.requestId} has a ${snapshot.request.standing_order} standing: end it first.`,
      order.requestId,
    );
  }
  if (until !== null && !(until > snapshot.now)) {
    throw new RequestRefusedError(
      'INVALID_ORDER',
      `The hold of request ${order.requestId} would end at a time that is past or no time at all: give a later one.`,
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

/**
 * Ends the holds whose time has come, by the database's clock, and returns their requests. Call it inside a transaction.
 * Workers call it; for what no worker touches, every operation that finds a request held looks whether it still is.
 */
export async function endDueHolds(tx: Queries): Promise<readonly string[]> {
  const { rows } = await sql<{ id: string }>`
    SELECT r.id FROM ${tx.t.requests} r
     WHERE r.standing_order = 'hold'
       AND r.id IN (SELECT o.request_id FROM ${tx.t.orders} o
                     WHERE o.kind = 'hold' AND o.ended_at IS NULL AND o.until <= (SELECT clock_timestamp()))
     ORDER BY r.id
     LIMIT 1000
       FOR UPDATE SKIP LOCKED`.execute(tx.db);
  return liftHolds(
    tx,
    rows.map(({ id }) => id),
    null,
    'due',
  );
}

/** Ends the hold of one request if its time has come. Call it inside a transaction. */
export async function endDueHold(tx: Queries, requestId: string): Promise<void> {
  const { rows } = await sql<{ id: string }>`
    SELECT id FROM ${tx.t.requests}
     WHERE id = ${requestId}::uuid AND standing_order = 'hold' FOR UPDATE`.execute(tx.db);
  await liftHolds(
    tx,
    rows.map(({ id }) => id),
    null,
    'due',
  );
}

/** Lets a blocked request go on. What went wrong stays in its history. Call it inside a transaction. */
export async function unblock(tx: Queries, order: Order): Promise<OrderResult> {
  await endDueHold(tx, order.requestId);
  const snapshot = await lockLive(tx, order.requestId);
  if (snapshot.request.status !== 'blocked') {
    throw new RequestRefusedError(
      'WRONG_STATUS',
      `Request ${order.requestId} is ${snapshot.request.status} and not blocked.`,
      order.requestId,
    );
  }
  // Refused when its batch was submitted (WF-8): it is never counted, so that nobody could approve anything of it.
  if (snapshot.request.inventory_digest === null && snapshot.request.batch_id !== null) {
    throw neverApprovable(order.requestId);
  }
  await insertOrder(tx, 'unblock', order, null);
  // One that its worker was to count is counted again (WF-1).
  const uncounted = snapshot.request.inventory_digest === null;
  const next: RequestStatus = snapshot.stages.length > 0 ? 'running' : uncounted ? 'submitted' : 'approved';
  // A request can be blocked by its worker while a hold waits for that worker: the hold is what it goes back to.
  const isHeld = snapshot.request.standing_order === 'hold';
  const status: RequestStatus = isHeld ? 'held' : next;
  await sql`
    UPDATE ${tx.t.requests}
       SET status = ${status}::text, held_status = CASE WHEN ${isHeld}::boolean THEN ${next}::text END,
           retry_count = 0, next_attempt_at = NULL, blocked_at = NULL, blocked_reason = NULL
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

/**
 * The requests are locked by now, so that this statement sees their orders as they are: what was read before the lock may
 * speak of a hold that was ended and ordered anew since.
 */
async function liftHolds(
  tx: Queries,
  ids: readonly string[],
  endedBy: string | null,
  which: 'all' | 'due' = 'all',
): Promise<readonly string[]> {
  if (ids.length === 0) return [];
  const { rows } = await sql<{ id: string }>`
    WITH ended AS (
      UPDATE ${tx.t.orders} o SET ended_at = clock_timestamp()
       WHERE o.request_id = ANY (${uuids(ids)}) AND o.kind = 'hold' AND o.ended_at IS NULL
         AND (${which}::text = 'all' OR o.until <= clock_timestamp())
      RETURNING o.request_id
    ), lifted AS (
      UPDATE ${tx.t.requests} r
         SET standing_order = NULL, status = coalesce(r.held_status, r.status), held_status = NULL
        FROM ended WHERE r.id = ended.request_id AND r.standing_order = 'hold'
      RETURNING r.id
    ), logged AS (
      INSERT INTO ${tx.t.events} (request_id, event, actor)
      SELECT id, 'hold_ended', ${endedBy}::text FROM lifted
    )
    SELECT id FROM lifted`.execute(tx.db);
  return rows.map(({ id }) => id);
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
