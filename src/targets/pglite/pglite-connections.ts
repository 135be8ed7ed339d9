/**
 * An embedded PostgreSQL as the PostgreSQL target uses a server. There is one session: a count is another transaction than the
 * delete that it verifies, not another connection (contract WF-19). The directory belongs to one process; while another has
 * it the target is unavailable, which is waited for.
 */
import { join } from 'node:path';
import { PGlite, type Transaction } from '@electric-sql/pglite';
import { isExpungeError } from '../../observe/expunge-error.js';
import { lockDirectory } from '../../storage/pglite/directory-lock.js';
import type { Connections, Query, TransactionKind } from '../postgres/connection.js';
import { NoAnswer, ServerRefusal } from '../postgres/faults.js';

/** PGlite 0.5 begins transactions by itself, as READ COMMITTED and READ WRITE. */
const SETTINGS: Readonly<Record<TransactionKind, string>> = {
  erase: `SELECT set_config('row_security', 'off', true)`,
  read: `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT set_config('row_security', 'off', true)`,
};

export class PGliteConnections implements Connections {
  readonly #directory: string;
  #open: Promise<{ readonly pglite: PGlite; readonly unlock: () => void }> | null = null;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async transaction<T>(kind: TransactionKind, signal: AbortSignal, run: (query: Query) => Promise<T>): Promise<T> {
    const pglite = await this.#start(signal);
    return pglite.transaction(async (tx) => {
      await tx.exec(SETTINGS[kind]);
      return run(queryOf(tx, signal));
    });
  }

  /** There are no notices to hear: nobody else can hold a lock. */
  async alone<T>(
    signal: AbortSignal,
    _onNotice: (sqlstate: string) => void,
    run: (query: Query, patient: Query) => Promise<T>,
  ): Promise<T> {
    const query = queryOf(await this.#start(signal), signal);
    return run(query, query);
  }

  async close(): Promise<void> {
    const open = await this.#open?.catch(() => null);
    this.#open = null;
    await open?.pglite.close();
    open?.unlock();
  }

  async #start(signal: AbortSignal): Promise<PGlite> {
    if (signal.aborted) throw new NoAnswer('ABORTED');
    this.#open ??= start(this.#directory);
    try {
      return (await this.#open).pglite;
    } catch (fault) {
      this.#open = null;
      if (isExpungeError(fault, 'EMBEDDED_DATABASE')) throw new NoAnswer('IN_USE');
      throw fault;
    }
  }
}

async function start(directory: string): Promise<{ pglite: PGlite; unlock: () => void }> {
  const unlock = lockDirectory(directory);
  try {
    return { pglite: await PGlite.create({ dataDir: join(directory, 'data') }), unlock };
  } catch (fault) {
    unlock();
    throw fault;
  }
}

function queryOf(session: Pick<Transaction, 'query' | 'exec'>, signal: AbortSignal): Query {
  return async <Row extends object>(text: string, values?: readonly unknown[], place?: string) => {
    if (signal.aborted) throw new NoAnswer('ABORTED');
    try {
      const result = await session.query<Row>(text, values === undefined ? [] : [...values]);
      return result.rows;
    } catch (fault) {
      throw asFault(fault, place);
    }
  };
}

/** What may be told of the error: never its message, which holds values. */
function asFault(fault: unknown, place: string | undefined): unknown {
  const { code, constraint, table } = fault as { code?: unknown; constraint?: unknown; table?: unknown };
  if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code)) return fault;
  return new ServerRefusal({
    sqlstate: code,
    ...(typeof constraint === 'string' ? { constraint } : {}),
    ...(typeof table === 'string' ? { table } : {}),
    ...(place === undefined ? {} : { place }),
  });
}
