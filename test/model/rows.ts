/** The rows of one request as they stand, in the words of the model, and what has to hold of them whatever was done. */
import { sql } from 'kysely';
import { expect } from 'vitest';
import type { RequestRow, StageRow } from '../../src/requests/request.js';
import type { Database } from '../../src/storage/database.js';
import type { Request, Stage } from './request-model.js';

type Written<R> = R & { readonly xmin: string };

export interface Rows {
  readonly request: Written<Omit<RequestRow, 'lease_expires_at' | 'next_attempt_at'>> & {
    readonly lease_expires_at: string | null;
    readonly next_attempt_at: string | null;
    readonly is_lease_live: boolean;
    readonly is_due: boolean;
    /** Seconds from the failure that the current stage has saved to the next attempt. */
    readonly retry_after: number | null;
  };
  readonly stages: readonly Written<StageRow>[];
  readonly orders: readonly Written<{
    readonly kind: string;
    readonly ended_at: string | null;
    readonly is_over: boolean;
  }>[];
  readonly approvals: readonly { readonly inventory_digest: string; readonly approved_by: string }[];
  readonly inventories: readonly string[];
  readonly events: readonly { readonly id: number; readonly event: string }[];
}

/** One statement: the rows and the clock of one moment. */
export async function readRows({ db, t }: Database, id: string): Promise<Rows> {
  const all = (table: (typeof t)[keyof typeof t], more: ReturnType<typeof sql>) => sql`
    coalesce((SELECT jsonb_agg(to_jsonb(x) || jsonb_build_object('xmin', x.xmin::text) || ${more} ORDER BY x.xmin::text)
                FROM ${table} x WHERE x.request_id = r.id), '[]')`;
  const plain = sql`'{}'::jsonb`;
  const { rows } = await sql<Rows>`
    SELECT to_jsonb(r) || jsonb_build_object(
             'xmin', r.xmin::text,
             'is_lease_live', coalesce(r.lease_expires_at > clock_timestamp(), false),
             'is_due', coalesce(r.next_attempt_at <= clock_timestamp(), false),
             'retry_after', (SELECT extract(epoch FROM r.next_attempt_at - s.finished_at)::float8 FROM ${t.stages} s
                              WHERE s.request_id = r.id AND s.is_current AND s.status = 'failed')) AS request,
           ${all(t.stages, plain)} AS stages,
           ${all(t.orders, sql`jsonb_build_object('is_over', coalesce(x.until <= clock_timestamp(), false))`)} AS orders,
           ${all(t.approvals, plain)} AS approvals,
           ${all(t.inventories, plain)} AS inventories,
           coalesce((SELECT jsonb_agg(jsonb_build_object('id', e.id, 'event', e.event) ORDER BY e.id)
                       FROM ${t.events} e WHERE e.request_id = r.id), '[]') AS events
      FROM ${t.requests} r WHERE r.id = ${id}::uuid`.execute(db);
  return rows[0] as Rows;
}

/** Along the ids of the predecessors (EX-9). Fails where they make no chain. */
export function chainOf(stages: Rows['stages']): Rows['stages'] {
  const byPrevious = new Map(stages.map((row) => [row.metadata_json.previous_stage_id, row]));
  expect(byPrevious.size, 'stages that follow the same one').toBe(stages.length);
  const chain: Written<StageRow>[] = [];
  for (let row = byPrevious.get(null); row !== undefined; row = byPrevious.get(row.id)) {
    chain.push(row);
    expect(chain.length, 'stages of the chain').toBeLessThanOrEqual(stages.length);
  }
  expect(chain.length, 'stages that the chain reaches').toBe(stages.length);
  return chain;
}

/** What the model says of a request, read from its rows. */
export function inWordsOfModel({ request: r, stages, orders, approvals, inventories, events }: Rows): Request {
  const isHoldOver = orders.some(({ kind, ended_at, is_over }) => kind === 'hold' && ended_at === null && is_over);
  const approved = approvals.filter(({ inventory_digest }) => inventory_digest === r.inventory_digest);
  return {
    status: r.status,
    heldStatus: r.held_status,
    order: r.standing_order,
    isHoldOver,
    owner: r.lease_owner,
    generation: r.lease_generation,
    isLeaseLive: r.is_lease_live,
    retryCount: r.retry_count,
    nextAttempt: r.next_attempt_at === null ? 'none' : r.is_due ? 'due' : 'later',
    hasError: r.last_error !== null,
    isBlocked: r.blocked_at !== null && r.blocked_reason !== null,
    isOver: r.completed_at !== null,
    revision: inventories.length,
    approvers: approved.map(({ approved_by }) => approved_by).sort(),
    approvalsRequired: r.approvals_required,
    stages: chainOf(stages).map(stageInWords),
    events: events.map(({ event }) => event),
  };
}

function stageInWords({
  stage,
  status,
  is_current,
  attempts,
  started_at,
  finished_at,
  metadata_json,
  last_error,
}: StageRow): Stage {
  const { result } = metadata_json;
  const pause = result?.['pause'];
  return {
    stage: stage as Stage['stage'],
    status,
    isCurrent: is_current,
    attempts,
    isStarted: started_at !== null,
    isFinished: finished_at !== null,
    result:
      result === undefined
        ? 'none'
        : result['cancelled'] === true
          ? 'cancelled'
          : result['rinse'] === true
            ? 'rinse'
            : 'plain',
    pause: pause === 'waiting' || pause === 'blocked' ? pause : null,
    hasError: last_error !== null,
  };
}

/** What holds whatever was done, and needs no model to be known. */
export function expectInvariants(before: Rows, after: Rows): void {
  const { request, stages, events } = after;
  const hasEnded = request.status === 'completed' || request.status === 'cancelled';
  const currents = stages.filter(({ is_current }) => is_current).length;
  expect(currents, 'current stages').toBe(hasEnded || stages.length === 0 ? 0 : 1);
  expect(request.lease_generation, 'the lease generation').toBeGreaterThanOrEqual(before.request.lease_generation);
  if (before.request.completed_at !== null)
    expect(withoutEvents(after), 'a request that has ended').toEqual(withoutEvents(before));
  expect(events.slice(0, before.events.length), 'the log of events').toEqual(before.events);
  const orders = after.orders.filter(
    ({ kind, ended_at }) => kind === request.standing_order && ended_at === null,
  ).length;
  expect(orders, 'standing orders').toBe(request.standing_order === null ? 0 : 1);
  for (const stage of before.stages) {
    const now = stages.find(({ id }) => id === stage.id);
    if (!stage.is_current) expect(now, 'a stage that was left').toEqual(stage);
    if (stage.started_at !== null) expect(now?.started_at, 'the first start of a stage').toEqual(stage.started_at);
  }
}

/** EX-17: 30 seconds after the first failure, then twice as long each time, spread by a tenth, an hour at most. */
export function expectRetryDelay({ request }: Rows): void {
  const nominal = Math.min(3600, 30 * 2 ** (request.retry_count - 1));
  const spread = request.retry_count === 1 ? 0 : 0.1 * nominal;
  expect(request.retry_after).toBeGreaterThanOrEqual(nominal - spread - 0.001);
  expect(request.retry_after).toBeLessThanOrEqual(Math.min(3600, nominal + spread) + 0.001);
}

export function withoutEvents({ events: _events, request, ...rest }: Rows): unknown {
  // What the clock alone has changed.
  const { is_lease_live: _live, is_due: _due, ...row } = request;
  return { request: row, ...rest };
}
