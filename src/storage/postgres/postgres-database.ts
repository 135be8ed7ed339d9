import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { type AnyKysely, type Database, type Queries, tableNames } from '../database.js';
import { GuardedPool } from './guarded-pool.js';

export interface PostgresOptions {
  readonly url: string;
  /** The schema that holds the product's tables; `expunge` by default. */
  readonly schema?: string;
  /** Connections for work; one more is kept for lease renewals. 10 by default. */
  readonly connections?: number;
  /** Called with the text of every statement that is sent; for counting round trips. */
  readonly onStatement?: (sql: string) => void;
}

/** How long to wait for a connection, in milliseconds. */
const CONNECT_TIMEOUT_MS = 10_000;
/**
 * How long to wait for an answer, in milliseconds. A server that hangs would otherwise hold its caller for ever; after this
 * a worker has lost its 60 s lease in any case.
 */
const ANSWER_TIMEOUT_MS = 50_000;

/** PostgreSQL 15 or later. Connects lazily: an unreachable server shows at the first statement. */
export function openPostgres(options: PostgresOptions): Database {
  const schema = options.schema ?? 'expunge';
  const location = describeUrl(options.url);
  const work = connect(options, location, options.connections ?? 10);
  const aside = connect(options, location, 1);
  const t = tableNames(schema);
  return {
    kind: 'postgres',
    schema,
    location,
    db: work,
    t,
    transaction: (run) => inTransaction(work, t, run),
    aside: { db: aside, t, transaction: (run) => inTransaction(aside, t, run) },
    close: async () => {
      await Promise.all([work.destroy(), aside.destroy()]);
    },
  };
}

function connect(options: PostgresOptions, location: string, connections: number): AnyKysely {
  const pool = new pg.Pool({
    connectionString: options.url,
    max: connections,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: ANSWER_TIMEOUT_MS,
    keepAlive: true,
    // A command should end when its work has, not when its idle connections time out.
    allowExitOnIdle: true,
    types: { getTypeParser },
  });
  return new Kysely({ dialect: new PostgresDialect({ pool: new GuardedPool(pool, location, options.onStatement) }) });
}

/** Generations and sequence numbers fit a double: microseconds since 1970 stay below 2^53 until the year 2255. */
const getTypeParser: typeof pg.types.getTypeParser = ((oid: number, format?: 'text' | 'binary') => {
  if (oid === pg.types.builtins.INT8 && format !== 'binary') return Number;
  return pg.types.getTypeParser(oid, format as 'text');
}) as typeof pg.types.getTypeParser;

// Stated with every transaction: the record relies on READ COMMITTED's fresh snapshots, and a server's default may differ.
function inTransaction<T>(db: AnyKysely, t: Queries['t'], run: (tx: Queries) => Promise<T>): Promise<T> {
  return db
    .transaction()
    .setIsolationLevel('read committed')
    .execute((tx) => run({ db: tx, t }));
}

/** Host, port and database of a URL: what a message may show of it. */
export function describeUrl(url: string): string {
  try {
    const parsed = new URL(url);
    const host = parsed.hostname || parsed.searchParams.get('host') || 'local socket';
    return `${host}:${parsed.port || '5432'}${parsed.pathname}`;
  } catch {
    return 'the configured URL';
  }
}
