/** The registry in Expunge's own database, on PostgreSQL or PGlite. */
import { sql } from 'kysely';
import type { Counters } from '../../observe/counters.js';
import { describeError } from '../../observe/describe-error.js';
import type { Log } from '../../observe/log.js';
import { type Database, type Queries, recordset } from '../../storage/database.js';
import type { DeletionStatus, Mark, MarkResult, Registry, StatusAnswer, TombstoneState } from '../registry.js';

export interface PostgresRegistryOptions {
  readonly database: Database;
  readonly log: Log;
  readonly counters: Counters;
}

export class PostgresRegistry implements Registry {
  readonly #database: Database;
  readonly #log: Log;
  readonly #counters: Counters;

  constructor(options: PostgresRegistryOptions) {
    this.#database = options.database;
    this.#log = options.log;
    this.#counters = options.counters;
  }

  async getDeletionStatus(reference: string): Promise<StatusAnswer> {
    try {
      const { rows } = await this.#read(reference);
      return rows[0] ?? { status: 'NOT_DELETED', state: null, generation: 0 };
    } catch (error) {
      this.#log.error('registry_read_failed', { code: describeError(error).code });
      this.#counters.add('expunge_registry_read_failures_total', { backend: this.#database.kind });
      return { status: 'UNKNOWN', state: null, generation: 0 };
    }
  }

  /** An expired row is not live, whether or not a sweep has met it yet (REG-7); its generation still stands. */
  #read(reference: string) {
    const { db, t } = this.#database;
    return sql<{ status: DeletionStatus; state: TombstoneState; generation: number }>`
      SELECT CASE WHEN state <> 'live' AND (expires_at IS NULL OR expires_at > clock_timestamp())
                  THEN 'DELETED' ELSE 'NOT_DELETED' END AS status,
             state, generation
        FROM ${t.tombstones} WHERE reference = ${reference}::text`.execute(db);
  }

  async proposeGenerations(requests: ReadonlyMap<string, readonly string[]>): Promise<ReadonlyMap<string, number>> {
    const { db, t } = this.#database;
    const rows = [...requests].flatMap(([id, references]) => references.map((reference) => ({ id, reference })));
    const { rows: proposed } = await sql<{ id: string; generation: number }>`
      SELECT x.id, greatest(coalesce(max(s.generation), 0) + 1,
                            (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS generation
        FROM jsonb_to_recordset(${recordset(rows)}) AS x (id text, reference text)
        LEFT JOIN ${t.tombstones} s USING (reference)
       GROUP BY x.id`.execute(db);
    return new Map(proposed.map(({ id, generation }) => [id, generation]));
  }

  /** A mark below the row's generation changes nothing: a worker that lost its lease cannot lock a subject again (REG-11). */
  mark(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>> {
    return this.#change(
      marks,
      (t) => sql`
        INSERT INTO ${t.tombstones} AS s (
          reference, state, generation, deleted_generation, deleted_at, request_id, group_id)
        SELECT i.reference, 'in_progress', i.generation, i.generation, clock_timestamp(), i.request_id, i.group_id
          FROM input i LEFT JOIN locked ON locked.reference = i.reference
         ORDER BY i.reference
        ON CONFLICT (reference) DO UPDATE
           SET state = 'in_progress',
               previous_deleted_generation = s.deleted_generation,
               generation = excluded.generation,
               deleted_generation = excluded.generation,
               deleted_at = excluded.deleted_at,
               expires_at = NULL,
               request_id = excluded.request_id,
               group_id = excluded.group_id
         WHERE s.generation < excluded.generation
        RETURNING reference, generation`,
      { creates: true },
    );
  }

  check(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>> {
    return this.#change(marks, (t) => sql`SELECT reference, generation FROM ${t.tombstones} WHERE false`);
  }

  markErased(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>> {
    return this.#setState(marks, 'in_progress', 'erased');
  }

  reopen(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>> {
    return this.#setState(marks, 'erased', 'in_progress');
  }

  #setState(marks: readonly Mark[], from: TombstoneState, to: TombstoneState) {
    return this.#change(
      marks,
      (t) => sql`
        UPDATE ${t.tombstones} s SET state = ${to}::text
          FROM locked
         WHERE s.reference = locked.reference AND locked.is_own AND s.state = ${from}::text
        RETURNING s.reference, s.generation`,
    );
  }

  complete(marks: readonly Mark[], keepSeconds: number): Promise<ReadonlyMap<string, MarkResult>> {
    return this.#change(
      marks,
      (t) => sql`
        UPDATE ${t.tombstones} s
           SET state = 'complete',
               expires_at = clock_timestamp() + make_interval(secs => ${keepSeconds}::double precision),
               request_id = NULL
          FROM locked
         WHERE s.reference = locked.reference AND locked.is_own AND s.state IN ('in_progress', 'erased')
        RETURNING s.reference, s.generation`,
    );
  }

  ungate(
    marks: readonly Mark[],
    liveGenerations: ReadonlyMap<string, number>,
    keepSeconds: number,
  ): Promise<ReadonlyMap<string, MarkResult>> {
    const generations = [...liveGenerations].map(([requestId, generation]) => ({ requestId, generation }));
    return this.#change(
      marks,
      (t) => sql`
        UPDATE ${t.tombstones} s
           SET state = 'live',
               generation = g.generation,
               deleted_generation = s.previous_deleted_generation,
               expires_at = clock_timestamp() + make_interval(secs => ${keepSeconds}::double precision),
               request_id = NULL
          FROM locked
          JOIN jsonb_to_recordset(${recordset(generations)}) AS g ("requestId" uuid, generation bigint)
            ON g."requestId" = locked.mark_request
         WHERE s.reference = locked.reference AND locked.is_own
        RETURNING s.reference, locked.mark_generation AS generation`,
    );
  }

  /**
   * Locks the rows in the order of their references, applies `statement`, and says where each mark stands: at its own
   * generation (or past it by this very change), at a newer one, or nowhere.
   */
  async #change(
    marks: readonly Mark[],
    statement: (t: Queries['t']) => ReturnType<typeof sql>,
    { creates = false } = {},
  ): Promise<ReadonlyMap<string, MarkResult>> {
    if (marks.length === 0) return new Map();
    const { db, t } = this.#database;
    const rows = marks.flatMap(({ requestId, groupId, references, generation }) =>
      references.map((reference) => ({ request_id: requestId, group_id: groupId, reference, generation })),
    );
    const { rows: found } = await sql<{ request_id: string; result: MarkResult }>`
      WITH input AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(${recordset(rows)})
                   AS x (request_id uuid, group_id uuid, reference text, generation bigint)
      ), locked AS MATERIALIZED (
        SELECT s.reference, s.generation, i.request_id AS mark_request, i.generation AS mark_generation,
               s.generation = i.generation AS is_own
          FROM ${t.tombstones} s JOIN input i ON i.reference = s.reference
         ORDER BY s.reference
           FOR UPDATE OF s
      ), changed AS (${statement(t)})
      SELECT i.request_id,
             CASE WHEN bool_or(locked.generation > i.generation AND changed.reference IS NULL) THEN 'superseded'
                  WHEN bool_or(locked.reference IS NULL AND NOT ${creates}::boolean
                               OR locked.generation < i.generation AND changed.reference IS NULL) THEN 'missing'
                  ELSE 'marked' END AS result
        FROM input i
        LEFT JOIN locked ON locked.reference = i.reference
        LEFT JOIN changed ON changed.reference = i.reference
       GROUP BY i.request_id`.execute(db);
    return new Map(found.map(({ request_id, result }) => [request_id, result]));
  }
}
