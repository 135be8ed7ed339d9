/** The registry in Expunge's own database, on PostgreSQL or PGlite. */
import { type RawBuilder, sql } from 'kysely';
import type { Counters } from '../../observe/counters.js';
import { describeError } from '../../observe/describe-error.js';
import type { Log } from '../../observe/log.js';
import { type Database, type Queries, recordset } from '../../storage/database.js';
import { parseReference } from '../../subject/reference.js';
import type { Mark, MarkResult, Registry, StatusAnswer, TombstoneState } from '../registry.js';
import { changeTombstones } from './change-tombstones.js';

export interface PostgresRegistryOptions {
  readonly database: Database;
  readonly log: Log;
  readonly counters: Counters;
}

const UNKNOWN: StatusAnswer = { status: 'UNKNOWN', state: null, generation: 0 };
const ABSENT: StatusAnswer = { status: 'NOT_DELETED', state: null, generation: 0 };

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
      parseReference(reference);
      const { rows } = await readOne(this.#database, reference);
      return rows[0] ?? ABSENT;
    } catch (error) {
      this.#readFailed(error);
      return UNKNOWN;
    }
  }

  async getDeletionStatuses(references: readonly string[]): Promise<ReadonlyMap<string, StatusAnswer>> {
    const readable = references.filter((reference) => this.#isReference(reference));
    const answers = new Map<string, StatusAnswer>(references.map((reference) => [reference, UNKNOWN]));
    if (readable.length === 0) return answers;
    try {
      const { rows } = await readMany(this.#database, readable);
      for (const reference of readable) answers.set(reference, ABSENT);
      for (const { reference, ...answer } of rows) answers.set(reference, answer);
    } catch (error) {
      this.#readFailed(error);
    }
    return answers;
  }

  #isReference(text: string): boolean {
    try {
      parseReference(text);
      return true;
    } catch (error) {
      this.#readFailed(error);
      return false;
    }
  }

  #readFailed(error: unknown): void {
    this.#log.error('registry_read_failed', { code: describeError(error).code });
    this.#counters.add('expunge_registry_read_failures_total', { backend: this.#database.kind });
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
    return changeTombstones(this.#database, marks, {
      creates: true,
      statement: (t) => sql`
        INSERT INTO ${t.tombstones} AS s (
          reference, state, generation, deleted_generation, deleted_at, request_id, group_id)
        SELECT reference, 'in_progress', generation, generation, clock_timestamp(), request_id, group_id
          FROM own ORDER BY reference
        ON CONFLICT (reference) DO UPDATE
           SET state = 'in_progress',
               previous_state = s.state,
               previous_expires_at = s.expires_at,
               previous_deleted_generation = s.deleted_generation,
               generation = excluded.generation,
               deleted_generation = excluded.generation,
               deleted_at = excluded.deleted_at,
               expires_at = NULL,
               request_id = excluded.request_id,
               group_id = excluded.group_id
         WHERE s.generation < excluded.generation
        RETURNING reference`,
    });
  }

  check(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>> {
    return changeTombstones(this.#database, marks, { statement: () => sql`SELECT reference FROM own WHERE false` });
  }

  markErased(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>> {
    return this.#setState(marks, 'in_progress', 'erased');
  }

  reopen(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>> {
    return this.#setState(marks, 'erased', 'in_progress');
  }

  #setState(marks: readonly Mark[], from: TombstoneState, to: TombstoneState) {
    return changeTombstones(this.#database, marks, {
      statement: (t) => sql`
        UPDATE ${t.tombstones} s SET state = ${to}::text
          FROM own WHERE s.reference = own.reference AND own.state = ${from}::text
        RETURNING s.reference`,
    });
  }

  complete(marks: readonly Mark[], keepSeconds: number): Promise<ReadonlyMap<string, MarkResult>> {
    return changeTombstones(this.#database, marks, {
      statement: (t) => sql`
        UPDATE ${t.tombstones} s
           SET state = 'complete', expires_at = ${after(keepSeconds)}, request_id = NULL
          FROM own WHERE s.reference = own.reference AND own.state IN ('in_progress', 'erased')
        RETURNING s.reference`,
    });
  }

  ungate(
    marks: readonly Mark[],
    liveGenerations: ReadonlyMap<string, number>,
    keepSeconds: number,
  ): Promise<ReadonlyMap<string, MarkResult>> {
    const generations = [...liveGenerations].map(([requestId, generation]) => ({ request_id: requestId, generation }));
    return changeTombstones(this.#database, marks, {
      statement: (t) => sql`
        UPDATE ${t.tombstones} s
           SET state = CASE WHEN s.previous_state = 'live' THEN 'live' ELSE 'complete' END,
               expires_at = CASE WHEN s.previous_state = 'live' THEN ${after(keepSeconds)}
                                 ELSE coalesce(s.previous_expires_at, ${after(keepSeconds)}) END,
               generation = live.generation,
               deleted_generation = s.previous_deleted_generation,
               request_id = NULL
          FROM own
          JOIN jsonb_to_recordset(${recordset(generations)}) AS live (request_id uuid, generation bigint) USING (request_id)
         WHERE s.reference = own.reference
        RETURNING s.reference`,
    });
  }
}

/**
 * An expired row is not live, whether or not a sweep has met it yet (REG-7); its generation still stands. One primary-key
 * look-up.
 */
function readOne({ db, t }: Queries, reference: string) {
  return sql<StatusAnswer>`
    SELECT ${statusColumns} FROM ${t.tombstones} WHERE reference = ${reference}::text`.execute(db);
}

function readMany({ db, t }: Queries, references: readonly string[]) {
  return sql<StatusAnswer & { reference: string }>`
    SELECT reference, ${statusColumns} FROM ${t.tombstones}
     WHERE reference = ANY (
             ARRAY(SELECT jsonb_array_elements_text(${JSON.stringify(references)}::text::jsonb)))`.execute(db);
}

const statusColumns: RawBuilder<unknown> = sql`
  CASE WHEN state <> 'live' AND (expires_at IS NULL OR expires_at > clock_timestamp())
       THEN 'DELETED' ELSE 'NOT_DELETED' END AS status,
  state, generation`;

function after(seconds: number): RawBuilder<unknown> {
  return sql`clock_timestamp() + make_interval(secs => ${seconds}::double precision)`;
}
