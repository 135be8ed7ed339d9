/**
 * One SQLite connection in a thread of its own: the driver is synchronous, and a lease cannot be renewed by a thread that waits
 * for a disk. Only codes come back of an error; its message holds names and values.
 */
import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import { TargetDeclarationError } from '../target-error.js';
import { StoreFault, type Value } from '../tables/store/store.js';

export type Rows = readonly Readonly<Record<string, unknown>>[];

export interface Connection {
  /** @throws StoreFault */
  query(text: string, values?: readonly Value[]): Promise<Rows>;
  close(): Promise<void>;
}

/** How long a statement waits for a lock of somebody else, in milliseconds. */
const BUSY_MS = 2_000;

/** It is text and no module, so that it runs the same from a bundle and from any loader. */
const THREAD = `
const { parentPort, workerData } = require('node:worker_threads');
const Database = require(workerData.driver);
let database;
const work = {
  open: () => { database = new Database(workerData.file, { timeout: workerData.busy }); return []; },
  query: (text, values) => {
    const statement = database.prepare(text);
    if (statement.reader) return statement.all(...values);
    statement.run(...values);
    return [];
  },
  close: () => { database?.close(); parentPort.close(); return []; },
};
parentPort.on('message', ({ id, call, text, values }) => {
  try {
    parentPort.postMessage({ id, rows: work[call](text, values) });
  } catch (error) {
    parentPort.postMessage({ id, code: typeof error.code === 'string' && error.code !== '' ? error.code : 'CANNOT_OPEN' });
  }
});`;

type Answer = { readonly id: number; readonly rows: Rows } | { readonly id: number; readonly code: string };

/** @throws StoreFault */
export async function connect(file: string): Promise<Connection> {
  const connection = new ThreadConnection(file);
  try {
    await connection.call('open');
    await connection.query('PRAGMA foreign_keys = ON');
    // Freed cells and pages are overwritten with zeros.
    await connection.query('PRAGMA secure_delete = ON');
    return connection;
  } catch (fault) {
    await connection.close();
    throw fault;
  }
}

class ThreadConnection implements Connection {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #calls = 0;
  #ended = false;

  constructor(file: string) {
    this.#worker = new Worker(THREAD, { eval: true, workerData: { driver: driverPath(), file, busy: BUSY_MS } });
    this.#worker.unref();
    this.#worker.on('message', (answer: Answer) => {
      this.#waiting.get(answer.id)?.(answer);
      this.#waiting.delete(answer.id);
      if (this.#waiting.size === 0) this.#worker.unref();
    });
    this.#worker.on('error', () => undefined);
    this.#worker.on('exit', () => {
      this.#ended = true;
      for (const [id, answer] of this.#waiting) answer({ id, code: 'THREAD_ENDED' });
      this.#waiting.clear();
    });
  }

  query(text: string, values: readonly Value[] = []): Promise<Rows> {
    return this.call('query', text, values);
  }

  async call(call: 'open' | 'query' | 'close', text = '', values: readonly Value[] = []): Promise<Rows> {
    if (this.#ended) throw new StoreFault('unavailable', 'THREAD_ENDED');
    this.#calls += 1;
    const id = this.#calls;
    this.#worker.ref();
    const answer = await new Promise<Answer>((resolve) => {
      this.#waiting.set(id, resolve);
      this.#worker.postMessage({ id, call, text, values });
    });
    if ('rows' in answer) return answer.rows;
    throw faultOf(answer.code);
  }

  async close(): Promise<void> {
    await this.call('close').catch(() => undefined);
    await this.#worker.terminate();
  }
}

function driverPath(): string {
  try {
    return createRequire(import.meta.url).resolve('libsql');
  } catch {
    throw new TargetDeclarationError('sqlite() needs its driver, which is not installed: npm i libsql.', {
      target: 'sqlite',
      cause: 'NO_DRIVER',
    });
  }
}

/** https://www.sqlite.org/rescode.html */
export function faultOf(code: string): StoreFault {
  if (/^SQLITE_(BUSY|LOCKED|IOERR|FULL|NOMEM|PROTOCOL|CANTOPEN|INTERRUPT|READONLY_DBMOVED|SCHEMA)/.test(code)) {
    return new StoreFault('unavailable', code);
  }
  if (code === 'THREAD_ENDED' || code === 'CANNOT_OPEN') return new StoreFault('unavailable', code);
  if (/^SQLITE_(CONSTRAINT|MISMATCH|TOOBIG)/.test(code)) return new StoreFault('subject', code);
  return new StoreFault('failed', code);
}
