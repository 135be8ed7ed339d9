/** Kysely on PGlite: one session, lent to one caller at a time. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { PGlite, Results } from '@electric-sql/pglite';
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
import { EmbeddedDatabaseError, NestedQueryError, TransactionAbortedError } from '../storage-error.js';

/** A transaction that the running code was called in. What it started and did not wait for may outlive it. */
interface OpenTransaction {
  readonly driver: PGliteDriver;
  open: boolean;
}

const inside = new AsyncLocalStorage<readonly OpenTransaction[]>();

export class PGliteDialect implements Dialect {
  readonly #driver: PGliteDriver;

  /**
   * @param open - starts the database; called once, at the first statement.
   * @param onStatement - called with the text of every statement that is sent.
   */
  constructor(open: () => Promise<PGlite>, onStatement?: (sql: string) => void) {
    this.#driver = new PGliteDriver(open, onStatement);
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
  async insideTransaction<T>(work: () => Promise<T>): Promise<T> {
    const transaction: OpenTransaction = { driver: this.#driver, open: true };
    try {
      return await inside.run([...(inside.getStore() ?? []), transaction], work);
    } finally {
      transaction.open = false;
    }
  }

  /**
   * Waits for the callers that have a turn, then closes the database for good; closed already, it does nothing.
   * @throws NestedQueryError inside a transaction, which it would wait for.
   */
  close(): Promise<void> {
    return this.#driver.destroy();
  }
}

class PGliteDriver implements Driver {
  readonly #open: () => Promise<PGlite>;
  readonly #onStatement: ((sql: string) => void) | undefined;
  #pglite: PGlite | undefined;
  #closed: Promise<void> | undefined;
  /** Settles when the session is free; each caller waits for the one before it. */
  #free: Promise<void> = Promise.resolve();
  readonly #release = new WeakMap<DatabaseConnection, () => void>();

  constructor(open: () => Promise<PGlite>, onStatement?: (sql: string) => void) {
    this.#open = open;
    this.#onStatement = onStatement;
  }

  /** Nothing to do: the database starts with the first caller that has the session, so that a close can wait for it. */
  init(): Promise<void> {
    return Promise.resolve();
  }

  async acquireConnection(): Promise<DatabaseConnection> {
    this.#refuseInside();
    if (this.#closed !== undefined) {
      throw new EmbeddedDatabaseError('The embedded database was asked after it had been closed: open it again.');
    }
    const release = await this.#takeTurn();
    try {
      this.#pglite ??= await this.#open();
    } catch (error) {
      release();
      throw error;
    }
    const connection = new PGliteConnection(this.#pglite, this.#onStatement);
    this.#release.set(connection, release);
    return connection;
  }

  #refuseInside(): void {
    if (inside.getStore()?.some(({ driver, open }) => open && driver === this) !== true) return;
    throw new NestedQueryError(
      'The embedded database was asked from inside a transaction on it, where it would wait for ever: ask through the transaction.',
    );
  }

  /** Waits for everybody who came before. The next one waits until the returned function is called. */
  async #takeTurn(): Promise<() => void> {
    const before = this.#free;
    let release = (): void => undefined;
    this.#free = new Promise((resolve) => {
      release = resolve;
    });
    await before;
    return release;
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
    this.#refuseInside();
    this.#closed ??= this.#takeTurn().then(() => this.#pglite?.close());
    await this.#closed;
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
    const result = await this.#run(query);
    // PostgreSQL answers a COMMIT of a failed transaction with ROLLBACK, not with an error.
    if (query.sql === 'commit' && result?.command === 'ROLLBACK') throw new TransactionAbortedError();
    return {
      rows: (result?.rows ?? []) as R[],
      ...(result?.affectedRows === undefined ? {} : { numAffectedRows: BigInt(result.affectedRows) }),
    };
  }

  async #run({ sql, parameters }: CompiledQuery): Promise<Results | undefined> {
    try {
      // Without parameters it may be a script of several statements, which only the simple protocol takes.
      return parameters.length === 0
        ? (await this.#pglite.exec(sql)).at(-1)
        : await this.#pglite.query(sql, [...parameters]);
    } catch (error) {
      // PGlite puts the values of the parameters on the error, where a log would find them.
      if (error instanceof Error && 'params' in error) delete error.params;
      throw error;
    }
  }

  // eslint-disable-next-line require-yield -- the interface asks for it; nothing here streams
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new EmbeddedDatabaseError('The embedded database does not stream results: read in pages.');
  }
}
