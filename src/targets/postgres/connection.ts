/**
 * Connections of one target: a pool that erases and another that reads, so that a count never goes through the connection
 * whose deletes it verifies (contract WF-19). Settings hold for one transaction, because a pooler hands sessions on.
 */
import pg from 'pg';
import type { Timeouts } from './declaration.js';
import { NoAnswer, ServerRefusal } from './faults.js';

const CONNECT_MS = 10_000;
const LOCK_MS = 5_000;
const STATEMENT_MS = 60_000;
/** How much longer than the server's own limit we wait for its answer, before we take it for dead. */
const GRACE_MS = 5_000;
/** VACUUM of a large table takes its time; a silent server must end all the same. */
const CLEANUP_MS = 3_600_000;
const CONNECTIONS = 3;

/**
 * Runs one statement and answers its rows.
 *
 * @param place - what the statement is for, as an error is to name it.
 * @throws ServerRefusal, NoAnswer.
 */
export type Query = <Row extends object>(
  text: string,
  values?: readonly unknown[],
  place?: string,
) => Promise<readonly Row[]>;

/** `read` sees one snapshot and can write nothing. */
export type TransactionKind = 'erase' | 'read';

const isolation: Readonly<Record<TransactionKind, string>> = {
  // Each statement sees what was committed before it: rows that a lock had to wait for are seen as they are now.
  erase: 'READ COMMITTED READ WRITE',
  read: 'REPEATABLE READ READ ONLY',
};

/** How a target reaches its database. `PooledConnections` does for a server. */
export interface Connections {
  /** Runs `run` in a transaction and commits it; an error rolls it back. @throws ServerRefusal, NoAnswer. */
  transaction<T>(kind: TransactionKind, signal: AbortSignal, run: (query: Query) => Promise<T>): Promise<T>;
  /**
   * Runs `run` on a connection of its own outside of a transaction, as VACUUM needs it.
   *
   * @param onNotice - called with the SQLSTATE of every notice.
   * @param run - gets a second query beside the usual one, for statements that go through a whole table.
   */
  alone<T>(
    signal: AbortSignal,
    onNotice: (sqlstate: string) => void,
    run: (query: Query, patient: Query) => Promise<T>,
  ): Promise<T>;
  /** Safe to call twice. */
  close(): Promise<void>;
}

export class PooledConnections implements Connections {
  readonly #config: pg.ClientConfig;
  readonly #pools: Readonly<Record<TransactionKind, pg.Pool>>;
  readonly #begin: Readonly<Record<TransactionKind, string>>;
  readonly #cleanupMs: number;
  #closing: Promise<void> | undefined;

  constructor(url: string, timeouts: Timeouts) {
    const statement = timeouts.statement ?? STATEMENT_MS;
    this.#cleanupMs = timeouts.cleanup ?? CLEANUP_MS;
    this.#config = {
      connectionString: url,
      connectionTimeoutMillis: timeouts.connect ?? CONNECT_MS,
      query_timeout: statement + GRACE_MS,
      keepAlive: true,
      fallback_application_name: 'expunge',
    };
    this.#pools = { erase: this.#pool(), read: this.#pool() };
    const begin = (kind: TransactionKind): string => beginSql(kind, statement, timeouts.lock ?? LOCK_MS);
    this.#begin = { erase: begin('erase'), read: begin('read') };
  }

  #pool(): pg.Pool {
    const pool = new pg.Pool({
      ...this.#config,
      max: CONNECTIONS,
      allowExitOnIdle: true,
    });
    return survives(pool);
  }

  async transaction<T>(kind: TransactionKind, signal: AbortSignal, run: (query: Query) => Promise<T>): Promise<T> {
    return lend(this.#pools[kind], signal, async (client) => {
      const query = queryOf(client, signal);
      try {
        await query(this.#begin[kind]);
        const answer = await run(query);
        await query('COMMIT');
        return answer;
      } catch (fault) {
        // Where even this fails, the connection is lost, and with it the transaction.
        if (!(fault instanceof NoAnswer)) await query('ROLLBACK');
        throw fault;
      }
    });
  }

  async alone<T>(
    signal: AbortSignal,
    onNotice: (sqlstate: string) => void,
    run: (query: Query, patient: Query) => Promise<T>,
  ): Promise<T> {
    const pool = survives(new pg.Pool({ ...this.#config, max: 1 }));
    pool.on('connect', (client) => client.on('notice', (notice) => onNotice(notice.code ?? '')));
    try {
      return await lend(pool, signal, (client) =>
        run(queryOf(client, signal), queryOf(client, signal, this.#cleanupMs)),
      );
    } finally {
      await pool.end();
    }
  }

  close(): Promise<void> {
    this.#closing ??= Promise.all([this.#pools.erase.end(), this.#pools.read.end()]).then(() => undefined);
    return this.#closing;
  }
}

/** A connection that dies between two statements has nobody waiting for it; without listeners it would end the process. */
function survives(pool: pg.Pool): pg.Pool {
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

/**
 * One round trip that begins a transaction with its settings. row_security: a policy that hides rows becomes an error
 * instead of a count of zero. jit: it costs more than it brings for statements of this kind.
 */
function beginSql(kind: TransactionKind, statement: number, lock: number): string {
  const settings = {
    statement_timeout: statement,
    lock_timeout: lock,
    idle_in_transaction_session_timeout: statement + GRACE_MS,
    row_security: 'off',
    jit: 'off',
  };
  const calls = Object.entries(settings).map(([name, value]) => `set_config('${name}', '${value}', true)`);
  return `BEGIN ISOLATION LEVEL ${isolation[kind]}; SELECT ${calls.join(', ')}`;
}

/** Lends a connection to `run`. An abort closes the connection, so that nobody waits for the answer to its statement. */
async function lend<T>(pool: pg.Pool, signal: AbortSignal, run: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await connect(pool, signal);
  let released = false;
  const release = (broken: boolean): void => {
    if (!released) client.release(broken);
    released = true;
  };
  const onAbort = (): void => release(true);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    const answer = await run(client);
    release(false);
    return answer;
  } catch (fault) {
    release(fault instanceof NoAnswer || (fault instanceof ServerRefusal && closesSession(fault.sqlstate)));
    throw fault;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

async function connect(pool: pg.Pool, signal: AbortSignal): Promise<pg.PoolClient> {
  if (signal.aborted) throw new NoAnswer('ABORTED');
  const connecting = pool.connect();
  let onAbort: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(new NoAnswer('ABORTED'));
    signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    return await Promise.race([connecting, aborted]);
  } catch (fault) {
    // Whoever comes too late is sent away.
    connecting.then(
      (client) => client.release(true),
      () => undefined,
    );
    throw asFault(fault, signal);
  } finally {
    if (onAbort) signal.removeEventListener('abort', onAbort);
  }
}

/** @param limit - how long to wait for an answer instead of what the connection says, in milliseconds. */
function queryOf(client: pg.PoolClient, signal: AbortSignal, limit?: number): Query {
  return async <Row extends object>(text: string, values?: readonly unknown[], place?: string) => {
    try {
      // The driver reads it from here too; its types do not say so.
      const own: pg.QueryConfig = limit === undefined ? { text } : Object.assign({ text }, { query_timeout: limit });
      const result = await client.query<Row>(own, values ? [...values] : undefined);
      return result.rows;
    } catch (fault) {
      throw asFault(fault, signal, place);
    }
  };
}

/** Takes from the driver's error what may be told. What has no SQLSTATE came from the connection or its time-outs. */
function asFault(fault: unknown, signal: AbortSignal, place?: string): unknown {
  if (fault instanceof NoAnswer) return fault;
  if (signal.aborted) return new NoAnswer('ABORTED');
  if (fault instanceof pg.DatabaseError && fault.code) {
    return new ServerRefusal({
      sqlstate: fault.code,
      ...(fault.constraint === undefined ? {} : { constraint: fault.constraint }),
      ...(fault.table === undefined ? {} : { table: fault.table }),
      ...(place === undefined ? {} : { place }),
    });
  }
  if (!(fault instanceof Error) || [TypeError, RangeError, ReferenceError].some((own) => fault instanceof own))
    return fault;
  return new NoAnswer(errnoOf(fault));
}

function errnoOf(fault: Error): string {
  const first: unknown = fault instanceof AggregateError ? fault.errors[0] : fault;
  const code = (first as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : 'NO_ANSWER';
}

function closesSession(sqlstate: string): boolean {
  return sqlstate.startsWith('08') || sqlstate.startsWith('57P') || sqlstate === '25P03';
}
