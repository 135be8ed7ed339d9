/** A DuckDB file as a store of plain tables. It is opened for each transaction, so that others get it in between. */
import type { Catalogue } from '../../schema/catalogue.js';
import type { Cleanup } from '../target.js';
import type { Problem } from '../tables/bind-places.js';
import type { BoundPlace } from '../tables/bound-place.js';
import type { DeclaredPlace } from '../tables/declaration.js';
import { refuseAborted, type Session, type Store, StoreFault } from '../tables/store/store.js';
import { inTransaction } from '../tables/store/transaction.js';
import { connect, type Connection } from './connection.js';
import { columnRules, forms } from './forms.js';
import { readCatalogue } from './read-catalogue.js';

export type CleanupReason =
  /** Deleted rows leave the file when their row group is written anew, and freed blocks are not overwritten. */
  | 'DELETED_ROWS_IN_FILE'
  /** A transaction of this process was open, so that the write-ahead log was not taken over into the file. */
  | 'WRITE_AHEAD_LOG';

export class DuckDBStore implements Store {
  readonly forms = forms;
  readonly columns = columnRules;
  readonly #file: string;
  readonly #connect: (file: string) => Promise<Connection>;

  /** @param connector - opens a connection; the driver's by default. */
  constructor(file: string, connector: (file: string) => Promise<Connection> = connect) {
    this.#file = file;
    this.#connect = connector;
  }

  async read<T>(signal: AbortSignal, work: (session: Session) => Promise<T>): Promise<T> {
    return this.#transaction('BEGIN TRANSACTION READ ONLY', signal, work);
  }

  async write<T>(signal: AbortSignal, work: (session: Session) => Promise<T>): Promise<T> {
    return this.#transaction('BEGIN TRANSACTION', signal, work);
  }

  async readCatalogue(session: Session): Promise<Catalogue> {
    return readCatalogue(session);
  }

  declaredProblems(declared: readonly DeclaredPlace[], catalogue: Catalogue): readonly Problem[] {
    return declared.flatMap(({ place, schema, table }) => {
      const relation = [...catalogue.relations.values()].find((one) => one.schema === schema && one.name === table);
      const columns = relation && catalogue.columns.get(relation.oid)!;
      const hidden = columns && [...columns.keys()].some((name) => name.toLowerCase() === 'rowid');
      return hidden ? [{ place, text: 'has a column "rowid", which hides the row number; give it another name' }] : [];
    });
  }

  async around(
    _session: Session,
    _place: BoundPlace,
    _rows: readonly string[],
    act: () => Promise<void>,
  ): Promise<void> {
    await act();
  }

  async cleanup(places: readonly BoundPlace[], signal: AbortSignal): Promise<readonly Cleanup[]> {
    return this.#connected(async (connection) => {
      refuseAborted(signal);
      const done = await checkpoint(connection);
      const left: readonly CleanupReason[] = done
        ? ['DELETED_ROWS_IN_FILE']
        : ['DELETED_ROWS_IN_FILE', 'WRITE_AHEAD_LOG'];
      return places.map(({ place }) => ({ place, did: done ? ['checkpoint'] : [], left }));
    });
  }

  async close(): Promise<void> {
    // Nothing is open between calls.
  }

  async #transaction<T>(begin: string, signal: AbortSignal, work: (session: Session) => Promise<T>): Promise<T> {
    return this.#connected((connection) => inTransaction(connection, begin, signal, work));
  }

  async #connected<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const connection = await this.#connect(this.#file);
    try {
      return await work(connection);
    } finally {
      connection.close();
    }
  }
}

async function checkpoint(connection: Connection): Promise<boolean> {
  try {
    await connection.query('CHECKPOINT');
    return true;
  } catch (fault) {
    if (fault instanceof StoreFault && fault.kind === 'unavailable') return false;
    throw fault;
  }
}
