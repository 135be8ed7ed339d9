import { join } from 'node:path';
import { PGlite, types } from '@electric-sql/pglite';
import { Kysely } from 'kysely';
import { type AnyKysely, type Database, type Queries, tableNames } from '../database.js';
import { parseBigint } from '../parse-bigint.js';
import { EmbeddedDatabaseError } from '../storage-error.js';
import { lockDirectory } from './directory-lock.js';
import { PGliteDialect } from './pglite-dialect.js';

export interface PGliteOptions {
  /** Where the database lives. Absent: in memory, gone with the process. */
  readonly directory?: string;
  /** The schema that holds the product's tables; `expunge` by default. */
  readonly schema?: string;
  /** Allows it although NODE_ENV is `production`: it never fsyncs, and serves one process. */
  readonly allowInProduction?: boolean;
  /** Called with the text of every statement that is sent; for counting round trips. */
  readonly onStatement?: (sql: string) => void;
}

/**
 * PostgreSQL in this process, on disk: for trials, demos and tests. A killed process loses nothing; a power cut can.
 *
 * There is one session. Callers take turns; a statement that is sent to the handle from inside a transaction, where it would
 * wait for ever, throws NestedQueryError, and so does closing the handle there.
 * @throws EmbeddedDatabaseError in production, or when another process has the directory.
 */
export function openPGlite(options: PGliteOptions = {}): Database {
  refuseInProduction(options);
  const { directory } = options;
  const unlock = directory === undefined ? () => undefined : lockDirectory(directory);
  const schema = options.schema ?? 'expunge';
  const dialect = new PGliteDialect(() => start(directory), options.onStatement);
  const db: AnyKysely = new Kysely({ dialect });
  const t = tableNames(schema);
  const transaction: Database['transaction'] = (run) => inTransaction(db, t, dialect, run);
  return {
    kind: 'pglite',
    schema,
    location: directory ?? 'memory',
    db,
    t,
    transaction,
    aside: { db, t, transaction },
    close: async () => {
      // Not through Kysely, which leaves a database that it has not used yet open for later.
      await dialect.close();
      unlock();
    },
  };
}

async function start(directory: string | undefined): Promise<PGlite> {
  const parsers = { [types.INT8]: parseBigint };
  if (directory === undefined) return PGlite.create({ parsers });
  try {
    return await PGlite.create({ dataDir: join(directory, 'data'), parsers });
  } catch (cause) {
    throw new EmbeddedDatabaseError(
      `The embedded database in ${directory} does not start: it is damaged, or another version of PGlite made it; move the directory away to begin anew.`,
      { cause },
    );
  }
}

function inTransaction<T>(
  db: AnyKysely,
  t: Queries['t'],
  dialect: PGliteDialect,
  run: (tx: Queries) => Promise<T>,
): Promise<T> {
  return db
    .transaction()
    .setIsolationLevel('read committed')
    .execute((tx) => dialect.insideTransaction(() => run({ db: tx, t })));
}

function refuseInProduction(options: PGliteOptions): void {
  if (process.env.NODE_ENV !== 'production' || options.allowInProduction === true) return;
  throw new EmbeddedDatabaseError(
    'The embedded database is refused because NODE_ENV is production: set EXPUNGE_DATABASE_URL to a PostgreSQL server, or allow it by name with embedded.allowInProduction.',
  );
}
