/** The one form that every change of tombstones has: lock in order, compare generations, then all rows of a deletion or none. */
import { type RawBuilder, sql } from 'kysely';
import { type Queries, recordset } from '../../storage/database.js';
import type { Mark, MarkResult } from '../registry.js';

export interface TombstoneChange {
  /**
   * Reads what may be changed from `own` (request_id, group_id, reference, generation, and the row's `state` as it is now),
   * and returns the references that it changed. A condition on the table itself would be held against its older version.
   */
  readonly statement: (t: Queries['t']) => RawBuilder<unknown>;
  /** Rows that are not there, or older, are no hindrance. */
  readonly creates?: boolean;
}

/** How often a mark is sent again because somebody else wrote a first row of its subject in between. */
const ROUNDS = 3;

/**
 * Says where each mark stands: `marked` at its own generation, or brought there by this change.
 * @throws whatever the database says; nothing of a deletion was changed then.
 */
export async function changeTombstones(
  queries: Queries,
  marks: readonly Mark[],
  change: TombstoneChange,
): Promise<ReadonlyMap<string, MarkResult>> {
  const results = new Map<string, MarkResult>();
  let open = marks;
  for (let round = 1; open.length > 0 && round <= ROUNDS; round += 1) {
    const answers = await send(queries, open, change);
    const raced = new Set<string>();
    for (const { request_id, result, is_raced } of answers) {
      results.set(request_id, result);
      if (is_raced) raced.add(request_id);
    }
    open = open.filter(({ requestId }) => raced.has(requestId));
  }
  if (open.length === 0) return results;
  throw new Error('A tombstone was written and taken away by others all the time.');
}

interface Answer {
  readonly request_id: string;
  readonly result: MarkResult;
  /** A row of it appeared after the statement's snapshot was taken, and was left alone: only the next statement sees it. */
  readonly is_raced: boolean;
}

async function send(
  { db, t }: Queries,
  marks: readonly Mark[],
  { statement, creates = false }: TombstoneChange,
): Promise<readonly Answer[]> {
  const rows = marks.flatMap(({ requestId, groupId, references, generation }) =>
    references.map((reference) => ({ request_id: requestId, group_id: groupId, reference, generation })),
  );
  const { rows: answers } = await sql<Answer>`
    WITH input AS MATERIALIZED (
      SELECT *, max(generation) OVER (PARTITION BY reference) AS newest
        FROM jsonb_to_recordset(${recordset(rows)})
             AS x (request_id uuid, group_id uuid, reference text, generation bigint)
    ), locked AS MATERIALIZED (
      SELECT s.reference, s.generation, s.state
        FROM ${t.tombstones} s
       WHERE s.reference IN (SELECT reference FROM input)
       ORDER BY s.reference
         FOR UPDATE
    ), verdict AS MATERIALIZED (
      SELECT i.request_id,
             CASE WHEN bool_or(greatest(locked.generation, i.newest) > i.generation) THEN 'superseded'
                  WHEN bool_or(coalesce(locked.generation < i.generation, true)) AND NOT ${creates}::boolean THEN 'missing'
                  ELSE 'marked' END AS result
        FROM input i LEFT JOIN locked USING (reference)
       GROUP BY i.request_id
    ), own AS MATERIALIZED (
      SELECT DISTINCT ON (i.reference) i.*, locked.state
        FROM input i JOIN verdict v USING (request_id) LEFT JOIN locked USING (reference)
       WHERE v.result = 'marked'
       ORDER BY i.reference, i.request_id
    ), changed AS (${statement(t)})
    SELECT v.request_id, v.result,
           v.result = 'marked' AND EXISTS (
             SELECT FROM input i
              WHERE i.request_id = v.request_id
                AND NOT EXISTS (SELECT FROM locked WHERE locked.reference = i.reference)
                AND NOT EXISTS (SELECT FROM changed WHERE changed.reference = i.reference)) AS is_raced
      FROM verdict v`.execute(db);
  return answers;
}
