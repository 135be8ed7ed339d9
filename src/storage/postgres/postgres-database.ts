import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { type AnyKysely, type Database, type Queries, tableNames } from '../database.js';
import { parseBigint } from '../parse-bigint.js';
import { parseTimestamp } from './parse-timestamp.js';
import { DatabaseUrlError } from '../storage-error.js';
import { GuardedPool } from './guarded-pool.js';

export interface PostgresOptions {
  readonly url: string;
  /** The schema that holds the product's tables; `expunge` by default. */
  readonly schema?: string;
  /** Connections for work; one more is kept for lease renewals. 10 by default. */
  readonly connections?: number;
  /** Called with the text of every statement that is sent; for counting round trips. */
  readonly onStatement?: (sql: string) => void;
  /** How long to wait for a connection, in milliseconds; 10,000 by default. */
  readonly connectTimeoutMs?: number;
  /**
   * How long to wait for the answer to one statement, in milliseconds; 0 waits for ever, as migrations of large tables have
   * to. 50,000 by default: a server that hangs would otherwise hold its caller for ever, and after this a worker has lost
   * its 60 s lease in any case.
   */
  readonly answerTimeoutMs?: number;
}

const CONNECT_TIMEOUT_MS = 10_000;
const ANSWER_TIMEOUT_MS = 50_000;

/**
 * PostgreSQL 15 or later. Connects lazily: an unreachable server shows at the first statement, as DatabaseUnavailableError.
 * @throws DatabaseUrlError when the URL cannot be used.
 */
export function openPostgres(options: PostgresOptions): Database {
  refuseUnusable(options.url);
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
    connectionTimeoutMillis: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
    keepAlive: true,
    // A command should end when its work has, not when its idle connections time out.
    allowExitOnIdle: true,
    fallback_application_name: 'expunge',
    types,
  });
  const answerTimeoutMs = options.answerTimeoutMs ?? ANSWER_TIMEOUT_MS;
  const guarded = new GuardedPool(pool, { location, answerTimeoutMs, onStatement: options.onStatement });
  return new Kysely({ dialect: new PostgresDialect({ pool: guarded }) });
}

const INT8: number = pg.types.builtins.INT8;
const TIMESTAMPTZ: number = pg.types.builtins.TIMESTAMPTZ;

const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: string) => {
    if (format !== 'binary' && oid === INT8) return parseBigint;
    if (format !== 'binary' && oid === TIMESTAMPTZ) return parseTimestamp;
    return pg.types.getTypeParser(oid, format as 'text') as (text: string) => unknown;
  },
};

// Stated with every transaction: the record relies on READ COMMITTED's fresh snapshots, and a server's default may differ.
function inTransaction<T>(db: AnyKysely, t: Queries['t'], run: (tx: Queries) => Promise<T>): Promise<T> {
  return db
    .transaction()
    .setIsolationLevel('read committed')
    .execute((tx) => run({ db: tx, t }));
}

function refuseUnusable(url: string): void {
  // The driver takes any scheme, and nothing at all, for an address of its own defaults.
  if (!/^(postgres(ql)?:|socket:|\/)/i.test(url)) throw new DatabaseUrlError();
  try {
    // Reads the address, with the certificates that it names, and connects nowhere.
    new pg.Client({ connectionString: url });
  } catch {
    throw new DatabaseUrlError();
  }
}

/** Host, port and database of a URL: what a message may show of it. */
export function describeUrl(url: string): string {
  const unnamed = 'the configured URL';
  if (!URL.canParse(url)) return unnamed;
  const { hostname, port, pathname, search, hash, searchParams } = new URL(url);
  // An "@" in here was meant to end a password: one with a "/", "?" or "#" in it, which makes the password look like a host.
  if (`${pathname}${search}${hash}`.includes('@')) return unnamed;
  const host = hostname || searchParams.get('host') || 'local socket';
  return `${host}:${port || '5432'}${pathname}`;
}
