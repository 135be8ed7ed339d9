/** Statements inside a transaction that an application has begun, and ends, by itself. */
import { randomUUID } from 'node:crypto';
import {
  type CompiledQuery,
  type DatabaseConnection,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  sql,
} from 'kysely';
import { type AnyKysely, type Queries, tableNames } from './database.js';
import { TransactionRequiredError } from './storage-error.js';

/**
 * A transaction as node-postgres (`Client`, `PoolClient`) and PGlite (`Transaction`) have it, and what an adapter for any other
 * driver has to offer: one method, which runs one statement with `$1`, `$2` … in it, always on the same connection. Pools and
 * databases, whose statements may each go to another connection, do not fit.
 */
export interface SqlTransaction {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>;
  readonly totalCount?: never;
  readonly transaction?: never;
}

/** A `Transaction` of Kysely on PostgreSQL. */
export interface KyselyTransaction {
  readonly isTransaction: true;
  withoutPlugins(): unknown;
}

export type BorrowedTransaction = SqlTransaction | KyselyTransaction;

/**
 * The product's tables inside the application's transaction.
 * @throws TransactionRequiredError where it is no transaction: the statement that finds this out has changed nothing.
 */
export async function borrow(tx: BorrowedTransaction, schema: string): Promise<Queries> {
  const db = 'isTransaction' in tx ? (tx.withoutPlugins() as AnyKysely) : overSql(tx);
  await requireTransaction(db);
  return { db, t: tableNames(schema) };
}

/**
 * A local setting is there for the next statement of the same transaction, and of no other. So a pool, a connection that was
 * not told to begin, and an adapter that changes connections are all found out, and no driver has to be known for it.
 */
async function requireTransaction(db: AnyKysely): Promise<void> {
  const token = randomUUID();
  await sql`SELECT set_config('expunge.borrowed', ${token}::text, true)`.execute(db);
  const { rows } = await sql<{ same: boolean }>`
    SELECT coalesce(current_setting('expunge.borrowed', true) = ${token}::text, false) AS same`.execute(db);
  if (rows[0]?.same !== true) throw new TransactionRequiredError();
}

function overSql(tx: SqlTransaction): AnyKysely {
  const connection = new BorrowedConnection(tx);
  return new Kysely({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
      createDriver: () => ({
        init: nothing,
        acquireConnection: () => Promise.resolve(connection),
        beginTransaction: notOurs,
        commitTransaction: notOurs,
        rollbackTransaction: notOurs,
        releaseConnection: nothing,
        destroy: nothing,
      }),
    },
  });
}

class BorrowedConnection implements DatabaseConnection {
  readonly #tx: SqlTransaction;

  constructor(tx: SqlTransaction) {
    this.#tx = tx;
  }

  async executeQuery<R>({ sql: text, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const { rows } = await this.#tx.query(text, [...parameters]);
    return { rows: rows as R[] };
  }

  // eslint-disable-next-line require-yield -- the interface asks for it; nothing here streams
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('A borrowed transaction does not stream.');
  }
}

function nothing(): Promise<void> {
  return Promise.resolve();
}

/** It is begun and ended by whoever it belongs to. */
function notOurs(): Promise<void> {
  return Promise.reject(new TransactionRequiredError());
}
