/**
 * What makes a write safe from a stale owner: the parents are locked first, in the order of their ids, and ownership is
 * compared afterwards, with the newest versions of the rows and a clock that is read once all of them are locked (EX-14,
 * EX-15). Locking without an order deadlocks; comparing before the wait lets an owner write whose lease ran out while it
 * waited.
 */
import { type RawBuilder, sql } from 'kysely';
import { type Queries, recordset } from '../storage/database.js';
import type { JsonValue } from '../storage/json.js';
import type { Lease } from './request.js';

/** One row of a fenced statement: the lease that it is written under, and what the statement needs. */
export interface FencedRow {
  readonly lease: Lease;
  readonly values?: Readonly<Record<string, JsonValue | undefined>>;
}

/**
 * The common table expressions `input`, `locked` and `owned`, to stand at the start of a statement. `owned` has the rows of
 * `input` whose lease is valid, with the parent's `status`, `retry_count`, `standing_order` and the time `at`.
 *
 * @param columns - the statement's own columns in `values`, with their types.
 * @param wait - `skip` leaves out of `locked` what is locked by somebody else, instead of waiting for it.
 */
export function owned(
  t: Queries['t'],
  rows: readonly FencedRow[],
  columns?: RawBuilder<unknown>,
  wait: 'wait' | 'skip' = 'wait',
): RawBuilder<unknown> {
  const input = rows.map(({ lease, values }) => ({
    request_id: lease.requestId,
    owner: lease.owner,
    generation: lease.generation,
    ...values,
  }));
  const own = columns === undefined ? sql`` : sql`, ${columns}`;
  return sql`
    input AS MATERIALIZED (
      SELECT * FROM jsonb_to_recordset(${recordset(input)})
                 AS x (request_id uuid, owner text, generation bigint${own})
    ), locked AS MATERIALIZED (
      SELECT r.id, r.status, r.retry_count, r.standing_order, r.lease_owner, r.lease_generation, r.lease_expires_at
        FROM ${t.requests} r
       WHERE r.id IN (SELECT request_id FROM input)
       ORDER BY r.id
         FOR UPDATE${wait === 'skip' ? sql` SKIP LOCKED` : sql``}
    ), clock AS MATERIALIZED (
      -- An aggregate answers when its input is complete: this clock is read after the last of the locks was had.
      SELECT clock_timestamp() AS at, count(*) FROM locked
    ), owned AS MATERIALIZED (
      SELECT input.*, locked.status AS request_status, locked.retry_count, locked.standing_order, clock.at
        FROM locked JOIN input ON input.request_id = locked.id CROSS JOIN clock
       WHERE locked.lease_owner = input.owner
         AND locked.lease_generation = input.generation
         AND locked.lease_expires_at > clock.at
    )`;
}
