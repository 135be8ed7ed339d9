/** A database with tables of a test's own, PostgreSQL targets opened on it, and the calls that an engine would make. */
import pg from 'pg';
import type { JsonValue } from '../../src/storage/json.js';
import { postgres, type PostgresOptions, type PostgresTarget } from '../../src/targets/postgres/index.js';
import { TargetError } from '../../src/targets/target-error.js';
import type { EraseProgress, PlaceCount, SubjectBatch, TargetSubject } from '../../src/targets/target.js';
import { createTestDatabase } from './postgres.js';

export interface TargetDatabase {
  readonly url: string;
  /** Runs SQL as the superuser and answers its rows. */
  query(sql: string, values?: unknown[]): Promise<Record<string, unknown>[]>;
  /** The number that `SELECT count(*) FROM …` answers. */
  rows(from: string): Promise<number>;
  open(options: Omit<PostgresOptions, 'url'> & { readonly url?: string }): PostgresTarget;
  drop(): Promise<void>;
}

export async function createTargetDatabase(sql = ''): Promise<TargetDatabase> {
  const { url, drop } = await createTestDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  pool.on('error', () => undefined);
  const opened: PostgresTarget[] = [];
  const query = async (text: string, values?: unknown[]): Promise<Record<string, unknown>[]> => {
    const result = await pool.query<Record<string, unknown>>(text, values);
    return result.rows;
  };
  if (sql) await query(sql);
  return {
    url,
    query,
    rows: async (from) => Number((await query(`SELECT count(*) AS rows FROM ${from}`))[0]?.rows),
    open(options) {
      const target = postgres({ url, ...options }).open('operational');
      opened.push(target);
      return target;
    },
    async drop() {
      await Promise.all(opened.map((target) => target.close()));
      await pool.end();
      await drop();
    },
  };
}

/** Subjects by ref, each of one identifier `id`. */
export function subjectsById(ids: Readonly<Record<string, string>>): SubjectBatch {
  return new Map(Object.entries(ids).map(([ref, id]) => [ref, { identifiers: { id }, locators: {} }]));
}

export const quiet = (): AbortSignal => new AbortController().signal;

export interface EraseRun {
  readonly errors: ReadonlyMap<string, TargetError>;
  readonly slices: number;
  /** Rows by place, over all subjects. */
  readonly reported: Readonly<Record<string, number>>;
  /** The most rows that one slice reported. */
  readonly largest: number;
}

/** Calls `erase` until every subject is done or has failed. */
export async function eraseAll(
  target: PostgresTarget,
  batch: SubjectBatch,
  { limit = 10_000, cursor = null as JsonValue, slices = 1_000 } = {},
): Promise<EraseRun> {
  const errors = new Map<string, TargetError>();
  const reported: Record<string, number> = {};
  let open = new Map([...batch].map(([ref, subject]) => [ref, { ...subject, cursor }]));
  let calls = 0;
  let largest = 0;
  for (; open.size > 0; calls += 1) {
    if (calls >= slices) throw new Error(`not done after ${calls} slices`);
    const rest: typeof open = new Map();
    let rows = 0;
    for (const [ref, answer] of await target.erase(open, { limit, signal: quiet() })) {
      if (answer instanceof TargetError) {
        errors.set(ref, answer);
        continue;
      }
      for (const one of answer.reported) {
        reported[one.place] = (reported[one.place] ?? 0) + one.rows;
        rows += one.rows;
      }
      // As the engine does it: the cursor goes through JSON.
      const saved = JSON.parse(JSON.stringify(answer.cursor)) as EraseProgress['cursor'];
      if (!answer.done) rest.set(ref, { ...open.get(ref)!, cursor: saved });
    }
    largest = Math.max(largest, rows);
    open = rest;
  }
  return { errors, slices: calls, reported, largest };
}

/** The counts of one subject by place. */
export async function countOf(
  target: PostgresTarget,
  identifiers: TargetSubject['identifiers'],
): Promise<Record<string, PlaceCount>> {
  const answers = await target.count(new Map([['one', { identifiers, locators: {} }]]), quiet());
  const answer = answers.get('one');
  if (!answer || answer instanceof TargetError) throw answer ?? new Error('no answer');
  return Object.fromEntries(answer.map((count) => [count.place, count]));
}

/** The rejection of a promise. */
export async function failureOf(promise: Promise<unknown>): Promise<TargetError> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof TargetError) return error;
    throw error;
  }
  throw new Error('it did not fail');
}
