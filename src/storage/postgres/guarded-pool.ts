/** A pool for Kysely that names connection faults and throws broken connections away instead of lending them again. */
import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type { Pool, PoolClient } from 'pg';
import { DatabaseUnavailableError } from '../storage-error.js';
import { faultCode, isConnectionFault } from './connection-fault.js';

export class GuardedPool implements PostgresPool {
  readonly #pool: Pool;
  readonly #location: string;
  readonly #onStatement: ((sql: string) => void) | undefined;

  constructor(pool: Pool, location: string, onStatement?: (sql: string) => void) {
    this.#pool = pool;
    this.#location = location;
    this.#onStatement = onStatement;
    // An idle connection that dies has nobody waiting for it; without a listener it would end the process.
    pool.on('error', () => undefined);
  }

  async connect(): Promise<PostgresPoolClient> {
    try {
      return new GuardedClient(await this.#pool.connect(), (error) => this.#named(error), this.#onStatement) as never;
    } catch (error) {
      throw this.#named(error);
    }
  }

  async end(): Promise<void> {
    await this.#pool.end();
  }

  #named(error: unknown): unknown {
    if (!isConnectionFault(error)) return error;
    return new DatabaseUnavailableError(
      `The database at ${this.#location} cannot be reached (${faultCode(error)}): check that it runs and that EXPUNGE_DATABASE_URL is right, then run this again.`,
      { cause: error },
    );
  }
}

class GuardedClient {
  readonly #client: PoolClient;
  readonly #named: (error: unknown) => unknown;
  readonly #onStatement: ((sql: string) => void) | undefined;
  #broken = false;

  constructor(client: PoolClient, named: (error: unknown) => unknown, onStatement?: (sql: string) => void) {
    this.#client = client;
    this.#named = named;
    this.#onStatement = onStatement;
  }

  async query(sql: string, parameters: readonly unknown[]): Promise<unknown> {
    this.#onStatement?.(sql);
    try {
      return await this.#client.query(sql, [...parameters]);
    } catch (error) {
      this.#broken ||= isConnectionFault(error);
      throw this.#named(error);
    }
  }

  release(): void {
    this.#client.release(this.#broken);
  }
}
