/** Takes ownership of requests, and nothing else: the status stays (EX-2), and no transaction is left open. */
import { sql } from 'kysely';
import { type Queries, uuids } from '../storage/database.js';
import { LEASE_SECONDS, type Lease, type RequestRow } from './request.js';
import { RequestRefusedError, unknownRequest } from './request-error.js';

export interface Claimed {
  readonly lease: Lease;
  readonly request: RequestRow;
}

export interface WorkflowName {
  readonly workflow: string;
  readonly version: number;
}

export interface ClaimDue {
  readonly owner: string;
  readonly limit: number;
  /** Those that are to be advanced, or those that have no inventory yet and are to be counted. Advanced by default. */
  readonly which?: 'advance' | 'count';
  /** Only these are claimed; requests of any other workflow or version are left alone. */
  readonly workflows: readonly WorkflowName[];
  /** Requests that this worker has found it cannot advance. */
  readonly except: readonly string[];
}

/** Each is the predicate of a partial index, to the letter. */
const ADVANCING = sql`r.status IN ('approved', 'running', 'waiting', 'retry_wait')`;
const UNCOUNTED = sql`r.status = 'submitted' AND r.inventory_digest IS NULL`;

/**
 * Claims what is due and free, oldest first. Rows that another worker is claiming are skipped, so that workers never wait for
 * each other, and nothing that is compared here can grow old in a wait. The deadline is compared with a clock that is read
 * once, before the scan: an index can use that.
 *
 * Everything but the deadline is a filter on the rows that the partial index `claimable_requests`, or `uncounted_requests`, yields in the order of the
 * claim, so that a claim reads as many rows as it takes. With a join to the workflows in place of `ANY`, the whole backlog
 * was sorted for every claim.
 */
export async function claimDue(queries: Queries, claim: ClaimDue): Promise<readonly Claimed[]> {
  const { db, t } = queries;
  const names = JSON.stringify(claim.workflows.map(nameOf));
  const { rows } = await sql<RequestRow & { taken_over_from: string | null }>`
    WITH due AS MATERIALIZED (
      SELECT r.id, r.lease_owner AS taken_over_from
        FROM ${t.requests} r
       WHERE ${claim.which === 'count' ? UNCOUNTED : ADVANCING}
         AND coalesce(r.next_attempt_at, r.created_at) <= (SELECT clock_timestamp())
         AND (r.lease_owner IS NULL OR r.lease_expires_at <= clock_timestamp())
         AND r.workflow || ' ' || r.workflow_version = ANY (
               ARRAY(SELECT jsonb_array_elements_text(${names}::text::jsonb)))
         AND r.id <> ALL (${uuids(claim.except)})
       ORDER BY coalesce(r.next_attempt_at, r.created_at), r.id
       LIMIT ${claim.limit}::integer
         FOR UPDATE SKIP LOCKED
    ), claimed AS (
      UPDATE ${t.requests} r
         SET lease_owner = ${claim.owner}::text,
             lease_generation = r.lease_generation + 1,
             lease_expires_at = clock_timestamp() + make_interval(secs => ${LEASE_SECONDS}::integer),
             heartbeat_at = clock_timestamp()
        FROM due
       WHERE r.id = due.id
      RETURNING r.*, due.taken_over_from
    ), logged AS (
      INSERT INTO ${t.events} (request_id, event, actor, detail)
      SELECT id, 'taken_over', ${claim.owner}::text,
             jsonb_build_object('from', taken_over_from, 'lease_generation', lease_generation)
        FROM claimed WHERE taken_over_from IS NOT NULL
    )
    SELECT * FROM claimed ORDER BY coalesce(next_attempt_at, created_at), id`.execute(db);
  return rows.map((request) => ({ lease: leaseOf(request, claim.owner), request }));
}

/** Requests that wait for a program which has their workflow. */
export interface Unclaimed extends WorkflowName {
  readonly count: number;
}

/** What is due, by workflows that are not among `known`: this program leaves it alone and has to say so (EX-27). */
export async function findUnknownWorkflows(
  { db, t }: Queries,
  known: readonly WorkflowName[],
): Promise<readonly Unclaimed[]> {
  const { rows } = await sql<Unclaimed>`
    SELECT r.workflow, r.workflow_version AS version, count(*)::integer AS count
      FROM ${t.requests} r
     WHERE (${ADVANCING} OR ${UNCOUNTED})
       AND r.workflow || ' ' || r.workflow_version <> ALL (
             ARRAY(SELECT jsonb_array_elements_text(${JSON.stringify(known.map(nameOf))}::text::jsonb)))
     GROUP BY r.workflow, r.workflow_version
     ORDER BY r.workflow, r.workflow_version`.execute(db);
  return rows;
}

function nameOf({ workflow, version }: WorkflowName): string {
  return `${workflow} ${version}`;
}

/**
 * Claims one request by its id, or says why not, in one statement.
 * @throws RequestRefusedError UNKNOWN_REQUEST, LEASED (owner and expiry), NOT_DUE (when) or WRONG_STATUS.
 */
export async function claimOne({ db, t }: Queries, id: string, owner: string): Promise<Claimed> {
  const { rows } = await sql<RequestRow & { is_leased: boolean; is_early: boolean; is_claimed: boolean }>`
    WITH locked AS MATERIALIZED (
      SELECT * FROM ${t.requests} WHERE id = ${id}::uuid FOR UPDATE
    ), judged AS MATERIALIZED (
      -- Judged when the row is locked, by a clock that is read after the wait.
      SELECT *, coalesce(lease_expires_at > clock_timestamp(), false) AS is_leased,
             coalesce(next_attempt_at > clock_timestamp(), false) AS is_early
        FROM locked
    ), claimed AS (
      UPDATE ${t.requests} r
         SET lease_owner = ${owner}::text,
             lease_generation = r.lease_generation + 1,
             lease_expires_at = clock_timestamp() + make_interval(secs => ${LEASE_SECONDS}::integer),
             heartbeat_at = clock_timestamp()
        FROM judged
       WHERE r.id = judged.id
         AND NOT judged.is_leased
         AND (judged.status IN ('approved', 'running')
              OR judged.status IN ('waiting', 'retry_wait') AND NOT judged.is_early
              OR judged.status = 'submitted' AND judged.inventory_digest IS NULL AND NOT judged.is_early)
      RETURNING r.*, judged.lease_owner AS taken_over_from
    ), logged AS (
      INSERT INTO ${t.events} (request_id, event, actor, detail)
      SELECT id, 'taken_over', ${owner}::text,
             jsonb_build_object('from', taken_over_from, 'lease_generation', lease_generation)
        FROM claimed WHERE taken_over_from IS NOT NULL
    )
    SELECT judged.*, claimed.id IS NOT NULL AS is_claimed,
           coalesce(claimed.lease_owner, judged.lease_owner) AS lease_owner,
           coalesce(claimed.lease_generation, judged.lease_generation) AS lease_generation,
           coalesce(claimed.lease_expires_at, judged.lease_expires_at) AS lease_expires_at,
           coalesce(claimed.heartbeat_at, judged.heartbeat_at) AS heartbeat_at
      FROM judged LEFT JOIN claimed USING (id)`.execute(db);
  if (rows[0] === undefined) throw unknownRequest(id);
  const { is_leased, is_early, is_claimed, ...request } = rows[0];
  if (!is_claimed) throw unclaimable({ ...request, is_leased, is_early });
  return { lease: leaseOf(request, owner), request };
}

function unclaimable(request: RequestRow & { is_leased: boolean; is_early: boolean }): RequestRefusedError {
  const { id, status } = request;
  if (request.is_leased) {
    return new RequestRefusedError(
      'LEASED',
      `Request ${id} is being worked on by ${request.lease_owner} until ${request.lease_expires_at?.toISOString()} at least: wait for it.`,
      id,
    );
  }
  if (['retry_wait', 'waiting', 'submitted'].includes(status) && request.is_early) {
    return new RequestRefusedError(
      'NOT_DUE',
      `Request ${id} is in ${status} until ${request.next_attempt_at?.toISOString()}: run it again then.`,
      id,
    );
  }
  return new RequestRefusedError('WRONG_STATUS', `Request ${id} is ${status}: ${advice(request)}`, id);
}

/** Whether a worker has to count it before anybody can approve it (WF-1). */
export function isUncounted({ status, inventory_digest }: RequestRow): boolean {
  return status === 'submitted' && inventory_digest === null;
}

function advice(request: RequestRow): string {
  switch (request.status) {
    case 'submitted':
    case 'awaiting_approval':
      return `it has to be approved first, with expunge approve ${request.id} --inventory-digest ${request.inventory_digest ?? 'HEX'}.`;
    case 'blocked':
      return `${request.blocked_reason ?? 'a person has to look'}; expunge unblock ${request.id} lets it go on.`;
    case 'held':
      return `it goes on when its hold ends, or with expunge hold ${request.id} --end.`;
    default:
      return 'there is nothing left to do.';
  }
}

function leaseOf(request: RequestRow, owner: string): Lease {
  return { requestId: request.id, owner, generation: request.lease_generation };
}
