/**
 * A pool for Kysely that names connection faults and throws broken connections away instead of lending them again.
 *
 * What is a connection fault is known from where it shows, not from its text, because half of the driver's faults carry
 * no code: whatever keeps a connection from being made; an `error` event of a lent connection, which the driver sends for
 * its socket and for nothing else; an answer that does not come in time, which is watched here for that reason; and the
 * server's own farewells. All else is an error of the statement, which stays itself and keeps the connection.
 */
import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type { Pool, PoolClient, QueryResult } from 'pg';
import { DatabaseUnavailableError, TransactionAbortedError } from '../storage-error.js';
import { codeOf, endsConnection } from './connection-fault.js';
import { isOwnSession, nameOfStatement } from './prepared-statements.js';

export interface GuardOptions {
  /** Where the database is, without credentials; for messages. */
  readonly location: string;
  /** How long to wait for the answer to one statement, in milliseconds; 0 waits for ever. */
  readonly answerTimeoutMs: number;
  /** Called with the text of every statement that is sent. */
  readonly onStatement?: ((sql: string) => void) | undefined;
}

export class GuardedPool implements PostgresPool {
  readonly #pool: Pool;
  readonly #options: GuardOptions;
  /** Whether the session is the program's own, by connection. */
  readonly #own = new WeakMap<PoolClient, boolean>();

  constructor(pool: Pool, options: GuardOptions) {
    this.#pool = pool;
    this.#options = options;
    // An idle connection that dies has nobody waiting for it; without a listener it would end the process.
    pool.on('error', () => undefined);
  }

  /** @throws DatabaseUnavailableError when no connection can be made, or none becomes free in time. */
  async connect(): Promise<PostgresPoolClient> {
    const client = await this.#connect();
    const guarded = new GuardedClient(client, this.#options);
    try {
      const isOwn = this.#own.get(client) ?? (await guarded.isOwnSession());
      this.#own.set(client, isOwn);
      if (isOwn) guarded.prepares = true;
    } catch (error) {
      guarded.release(true);
      throw error;
    }
    // The driver's type of a client also takes cursors, which nothing here uses.
    return guarded as unknown as PostgresPoolClient;
  }

  async #connect(): Promise<PoolClient> {
    try {
      return await this.#pool.connect();
    } catch (error) {
      // Used after its end: a fault of the program.
      if (this.#pool.ending) throw error;
      throw this.#unavailable(error);
    }
  }

  async end(): Promise<void> {
    await this.#pool.end();
  }

  #unavailable(cause: unknown): DatabaseUnavailableError {
    const { location } = this.#options;
    const code = codeOf(cause);
    const allLent = code === undefined && this.#pool.totalCount >= this.#pool.options.max;
    const message = allLent
      ? `None of the ${this.#pool.options.max} connections to the database at ${location} became free in time (POOL_BUSY): run this again when less is going on.`
      : `The database at ${location} cannot be reached (${code ?? 'NO_ANSWER'}): check that it runs and that EXPUNGE_DATABASE_URL is right, then run this again.`;
    return new DatabaseUnavailableError(message, { cause });
  }
}

/** One connection while it is lent. Once broken it answers every statement with the fault that broke it. */
class GuardedClient {
  readonly #client: PoolClient;
  readonly #options: GuardOptions;
  #fault: DatabaseUnavailableError | undefined;
  /** Whether statements with parameters are prepared by name. */
  prepares = false;

  constructor(client: PoolClient, options: GuardOptions) {
    this.#client = client;
    this.#options = options;
    // The pool listens to idle clients only: without this, a lent connection that dies would end the process.
    client.on('error', this.#onError);
  }

  readonly #onError = (error: Error): void => {
    this.#lose(codeOf(error) ?? 'CONNECTION_LOST', error);
  };

  async query(sql: string, parameters: readonly unknown[]): Promise<QueryResult> {
    if (this.#fault !== undefined) throw this.#fault;
    this.#options.onStatement?.(sql);
    const result = await this.#answer(sql, parameters);
    // PostgreSQL answers a COMMIT of a failed transaction with ROLLBACK, not with an error.
    if (sql === 'commit' && result.command === 'ROLLBACK') throw new TransactionAbortedError();
    return result;
  }

  /** Asked once per connection. */
  async isOwnSession(): Promise<boolean> {
    const { rows } = await this.#answer('SELECT pg_backend_pid() AS pid', []);
    const greeted = (this.#client as { processID?: unknown }).processID;
    return isOwnSession(greeted, (rows[0] as { pid?: unknown } | undefined)?.pid);
  }

  /** @param destroy - Kysely's word that the connection is in no state to be lent again: its rollback failed. */
  release(destroy = false): void {
    this.#client.release(destroy || this.#fault !== undefined);
    // Only now, when the pool listens again.
    this.#client.off('error', this.#onError);
  }

  async #answer(sql: string, parameters: readonly unknown[]): Promise<QueryResult> {
    const { answerTimeoutMs } = this.#options;
    let timer: NodeJS.Timeout | undefined;
    const silence = new Promise<never>((_resolve, reject) => {
      if (answerTimeoutMs > 0) timer = setTimeout(() => reject(this.#lose('NO_ANSWER')), answerTimeoutMs);
    });
    try {
      const name = this.prepares && parameters.length > 0 ? nameOfStatement(sql) : undefined;
      return await Promise.race([this.#client.query({ name, text: sql, values: [...parameters] }), silence]);
    } catch (error) {
      if (this.#fault === undefined && endsConnection(error)) this.#lose(codeOf(error) ?? '08000', error);
      throw this.#fault ?? error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The first fault counts: what follows it only echoes it. */
  #lose(code: string, cause?: unknown): DatabaseUnavailableError {
    this.#fault ??= new DatabaseUnavailableError(
      `The connection to the database at ${this.#options.location} was lost (${code}): check that it runs, then run this again.`,
      { cause },
    );
    return this.#fault;
  }
}
