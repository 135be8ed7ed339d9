/** Kysely on PGlite: one session, lent to one caller at a time. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { PGlite } from '@electric-sql/pglite';
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  type TransactionSettings,
} from 'kysely';
import { NestedQueryError } from '../storage-error.js';

/** Which transactions the running code is inside of, by driver. */
const inside = new AsyncLocalStorage<ReadonlySet<PGliteDriver>>();

export class PGliteDialect implements Dialect {
  readonly #driver: PGliteDriver;

  constructor(pglite: () => Promise<PGlite>, onStatement?: (sql: string) => void) {
    this.#driver = new PGliteDriver(pglite, onStatement);
  }

  createDriver = (): Driver => this.#driver;
  createQueryCompiler = (): PostgresQueryCompiler => new PostgresQueryCompiler();
  createAdapter = (): PostgresAdapter => new PostgresAdapter();
  createIntrospector = (db: ConstructorParameters<typeof PostgresIntrospector>[0]): PostgresIntrospector =>
    new PostgresIntrospector(db);

  /**
   * Runs `work` marked as being inside a transaction of this database. A statement sent to the database itself from in
   * there would wait for the transaction, which waits for it: such a statement is refused instead of hanging for ever.
   */
  insideTransaction<T>(work: () => Promise<T>): Promise<T> {
    return inside.run(new Set([...(inside.getStore() ?? []), this.#driver]), work);
  }
}

class PGliteDriver implements Driver {
  readonly #open: () => Promise<PGlite>;
  readonly #onStatement: ((sql: string) => void) | undefined;
  #pglite: PGlite | undefined;
  /** Settles when the session is free; each caller waits for the one before it. */
  #free: Promise<void> = Promise.resolve();
  readonly #release = new WeakMap<DatabaseConnection, () => void>();

  constructor(open: () => Promise<PGlite>, onStatement?: (sql: string) => void) {
    this.#open = open;
    this.#onStatement = onStatement;
  }

  async init(): Promise<void> {
    this.#pglite = await this.#open();
  }

  async acquireConnection(): Promise<DatabaseConnection> {
    if (inside.getStore()?.has(this) === true) {
      throw new NestedQueryError(
        'A statement was sent to the embedded database from inside a transaction on it, where it would wait for ever: send it through the transaction.',
      );
    }
    const before = this.#free;
    let release = (): void => undefined;
    this.#free = new Promise((resolve) => {
      release = resolve;
    });
    await before;
    const connection = new PGliteConnection(this.#pglite as PGlite, this.#onStatement);
    this.#release.set(connection, release);
    return connection;
  }

  async beginTransaction(connection: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    const level = settings.isolationLevel === undefined ? '' : ` isolation level ${settings.isolationLevel}`;
    await connection.executeQuery(CompiledQuery.raw(`start transaction${level}`));
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('commit'));
  }

  async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('rollback'));
  }

  releaseConnection(connection: DatabaseConnection): Promise<void> {
    this.#release.get(connection)?.();
    return Promise.resolve();
  }

  async destroy(): Promise<void> {
    await this.#pglite?.close();
  }
}

class PGliteConnection implements DatabaseConnection {
  readonly #pglite: PGlite;
  readonly #onStatement: ((sql: string) => void) | undefined;

  constructor(pglite: PGlite, onStatement?: (sql: string) => void) {
    this.#pglite = pglite;
    this.#onStatement = onStatement;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    this.#onStatement?.(query.sql);
    // Without parameters it may be a script of several statements, which only the simple protocol takes.
    const result =
      query.parameters.length === 0
        ? (await this.#pglite.exec(query.sql)).at(-1)
        : await this.#pglite.query(query.sql, [...query.parameters]);
    return {
      rows: (result?.rows ?? []) as R[],
      ...(result?.affectedRows === undefined ? {} : { numAffectedRows: BigInt(result.affectedRows) }),
    };
  }

  // eslint-disable-next-line require-yield -- the interface asks for it; nothing here streams
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new NestedQueryError('The embedded database does not stream results: read in pages.');
  }
}
