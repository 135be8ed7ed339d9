import { join } from 'node:path';
import { PGlite, types } from '@electric-sql/pglite';
import { Kysely } from 'kysely';
import { type AnyKysely, type Database, type Queries, tableNames } from '../database.js';
import { EmbeddedDatabaseError } from '../storage-error.js';
import { lockDirectory, unlockDirectory } from './directory-lock.js';
import { PGliteDialect } from './pglite-dialect.js';

export interface PGliteOptions {
  /** Where the database lives. Absent: in memory, gone with the process. */
  readonly directory?: string;
  readonly schema?: string;
  /** Allows it although NODE_ENV is `production`: it never fsyncs, and serves one process. */
  readonly allowInProduction?: boolean;
  readonly onStatement?: (sql: string) => void;
}

/**
 * PostgreSQL in this process, on disk: for trials, demos and tests. A killed process loses nothing; a power cut can.
 * @throws EmbeddedDatabaseError in production, or when another process has the directory.
 */
export function openPGlite(options: PGliteOptions = {}): Database {
  refuseInProduction(options);
  const { directory } = options;
  if (directory !== undefined) lockDirectory(directory);
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
      await db.destroy();
      if (directory !== undefined) unlockDirectory(directory);
    },
  };
}

function start(directory: string | undefined): Promise<PGlite> {
  const parsers = { [types.INT8]: Number };
  return PGlite.create(directory === undefined ? { parsers } : { dataDir: join(directory, 'data'), parsers });
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
