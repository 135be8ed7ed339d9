/**
 * A SQLite file as a store of plain tables: one connection that reads and another that writes, each in its thread. Both are kept
 * until the file is another one.
 */
import { stat } from 'node:fs/promises';
import type { Catalogue } from '../../schema/catalogue.js';
import type { Cleanup } from '../target.js';
import type { Problem } from '../tables/bind-places.js';
import type { BoundPlace } from '../tables/bound-place.js';
import type { DeclaredPlace } from '../tables/declaration.js';
import { type Session, type Store, StoreFault } from '../tables/store/store.js';
import { inTransaction } from '../tables/store/transaction.js';
import { cleanUp } from './cleanup.js';
import { connect, type Connection } from './connection.js';
import { columnRules, forms } from './forms.js';
import { readCatalogue, type SqliteCatalogue } from './read-catalogue.js';
import { declaredProblems, deleteFromIndexes } from './search-rules.js';

type Role = 'reader' | 'writer';

interface Opened {
  /** Device and number of the file. */
  readonly file: string;
  readonly connection: Connection;
}

export class SqliteStore implements Store {
  readonly forms = forms;
  readonly columns = columnRules;
  readonly #file: string;
  readonly #connect: (file: string) => Promise<Connection>;
  readonly #opened = new Map<Role, Opened>();
  readonly #busy = new Map<Role, Promise<void>>();
  #catalogue: SqliteCatalogue | null = null;

  /** @param connector - opens a connection; the driver's by default. */
  constructor(file: string, connector: (file: string) => Promise<Connection> = connect) {
    this.#file = file;
    this.#connect = connector;
  }

  async read<T>(signal: AbortSignal, work: (session: Session) => Promise<T>): Promise<T> {
    return this.#alone('reader', (connection) => inTransaction(connection, 'BEGIN', signal, work));
  }

  async write<T>(signal: AbortSignal, work: (session: Session) => Promise<T>): Promise<T> {
    return this.#alone('writer', (connection) => inTransaction(connection, 'BEGIN IMMEDIATE', signal, work));
  }

  async readCatalogue(session: Session): Promise<Catalogue> {
    this.#catalogue = await readCatalogue(session);
    return this.#catalogue;
  }

  declaredProblems(declared: readonly DeclaredPlace[]): readonly Problem[] {
    return declaredProblems(declared, this.#catalogue!);
  }

  async around(session: Session, place: BoundPlace, rows: readonly string[], act: () => Promise<void>): Promise<void> {
    await deleteFromIndexes(session, this.#catalogue!, place, rows, act);
  }

  async cleanup(places: readonly BoundPlace[], signal: AbortSignal): Promise<readonly Cleanup[]> {
    // A reader that stands in the write-ahead log would keep it from being emptied.
    await this.#end('reader');
    return this.#alone('writer', (connection) => cleanUp(connection, this.#catalogue!, places, signal));
  }

  async close(): Promise<void> {
    for (const role of ['reader', 'writer'] as const) await this.#end(role);
  }

  /** One transaction at a time on each connection. */
  async #alone<T>(role: Role, work: (connection: Connection) => Promise<T>): Promise<T> {
    const before = this.#busy.get(role);
    const running = (async () => {
      await before;
      try {
        return await work(await this.#connection(role));
      } catch (fault) {
        // The driver keeps a statement that found the file locked, and with it a lock of its own.
        if (fault instanceof StoreFault && fault.kind === 'unavailable') await this.#end(role);
        throw fault;
      }
    })();
    this.#busy.set(
      role,
      running.then(
        () => undefined,
        () => undefined,
      ),
    );
    return running;
  }

  async #connection(role: Role): Promise<Connection> {
    const file = await identityOf(this.#file);
    const opened = this.#opened.get(role);
    if (opened?.file === file) return opened.connection;
    await this.#end(role);
    const connection = await this.#connect(this.#file);
    this.#opened.set(role, { file, connection });
    return connection;
  }

  async #end(role: Role): Promise<void> {
    const opened = this.#opened.get(role);
    this.#opened.delete(role);
    await opened?.connection.close();
  }
}

/** The driver would create a file that is not there. */
async function identityOf(file: string): Promise<string> {
  try {
    const { dev, ino } = await stat(file);
    return `${dev}:${ino}`;
  } catch (error) {
    throw new StoreFault('unavailable', (error as NodeJS.ErrnoException).code ?? 'CANNOT_OPEN');
  }
}
