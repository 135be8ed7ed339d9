/**
 * A small store in memory, for the example target. It behaves like a remote one: it is reached through connections,
 * every call takes a turn, it has pages and row counts, and it can be made to fail.
 */
import type { FaultKind, Undo } from './harness.js';

export interface MemoryRecord {
  readonly id: number;
  readonly key: Readonly<Record<string, string>>;
  readonly content: string;
}

/** Records of one collection whose columns equal these values. */
export interface MemoryQuery {
  readonly columns: Readonly<Record<string, string>>;
  /** How a stored value is held against the wanted one; equality by default. */
  readonly compare?: (stored: string, wanted: string) => boolean;
}

/** What the store's driver throws. As real drivers do, it prints the values that it was asked for. */
export class MemoryStoreError extends Error {
  readonly code: 'CONNECTION_LOST' | 'NO_SUCH_COLLECTION';
  constructor(code: MemoryStoreError['code'], statement: string) {
    super(`${code} in ${statement}`);
    this.code = code;
  }
}

export class MemoryStore {
  #collections = new Map<string, MemoryRecord[]>();
  #lastId = 0;
  #calls = 0;
  #fault: FaultKind | null = null;
  #undone: Promise<void> = Promise.resolve();

  constructor(collections: readonly string[]) {
    for (const name of collections) this.#collections.set(name, []);
  }

  /** Writes a record, whatever fault there is. */
  insert(collection: string, key: Readonly<Record<string, string>>, content: string): void {
    this.#lastId += 1;
    this.#collections.get(collection)?.push({ id: this.#lastId, key, content });
  }

  /** Everything in a collection, whatever fault there is. */
  records(collection: string): readonly MemoryRecord[] {
    return this.#collections.get(collection) ?? [];
  }

  connect(): MemoryConnection {
    return new MemoryConnection((collection, statement, signal) => this.#turn(collection, statement, signal), this);
  }

  /** Makes the store fail until undone; `missing` takes away the first collection. */
  break(kind: FaultKind): Undo {
    let undo = (): void => undefined;
    this.#undone = new Promise((resolve) => {
      undo = resolve;
    });
    this.#fault = kind;
    const before = this.#collections;
    if (kind === 'missing') this.#collections = new Map([...before].slice(1));
    return async () => {
      this.#fault = null;
      this.#collections = before;
      undo();
      await this.#undone;
    };
  }

  /** Whether deletes remove nothing. */
  get isSilent(): boolean {
    return this.#fault === 'silent';
  }

  /** What every call goes through: the network, and the fault that there is. */
  async #turn(collection: string | null, statement: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    await Promise.resolve();
    this.#calls += 1;
    if (this.#fault === 'slow') await untilAborted(this.#undone, signal);
    if (this.#fault === 'down' || (this.#fault === 'half' && this.#calls % 2 === 0)) {
      throw new MemoryStoreError('CONNECTION_LOST', statement);
    }
    if (collection !== null && !this.#collections.has(collection)) {
      throw new MemoryStoreError('NO_SUCH_COLLECTION', statement);
    }
  }

  /** Takes records out. Connections call it after their turn. */
  take(collection: string, ids: ReadonlySet<number>): number {
    const records = this.records(collection);
    const rest = records.filter(({ id }) => !ids.has(id));
    const removed = records.length - rest.length;
    if (!this.isSilent) this.#collections.set(collection, rest);
    return removed;
  }
}

async function untilAborted(wait: Promise<void>, signal: AbortSignal): Promise<void> {
  let stop = (): void => undefined;
  const aborted = new Promise<void>((_resolve, reject) => {
    stop = () => {
      reject(signal.reason as Error);
    };
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    await Promise.race([wait, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** One connection. Every method throws `MemoryStoreError`, or the signal's reason once that is aborted. */
export class MemoryConnection {
  readonly #turn: (collection: string | null, statement: string, signal: AbortSignal) => Promise<void>;
  readonly #store: MemoryStore;

  constructor(
    turn: (collection: string | null, statement: string, signal: AbortSignal) => Promise<void>,
    store: MemoryStore,
  ) {
    this.#turn = turn;
    this.#store = store;
  }

  /** Fails where the store does not answer or the collection is not there. */
  async check(collection: string, signal: AbortSignal): Promise<void> {
    await this.#turn(collection, `check ${collection}`, signal);
  }

  async count(collection: string, query: MemoryQuery, signal: AbortSignal): Promise<number> {
    await this.#turn(collection, `count ${collection} ${JSON.stringify(query.columns)}`, signal);
    return this.#matching(collection, query).length;
  }

  /** At most `limit` records, by id, after `offset` others. */
  async select(
    collection: string,
    query: MemoryQuery,
    page: { readonly limit: number; readonly offset?: number },
    signal: AbortSignal,
  ): Promise<readonly MemoryRecord[]> {
    await this.#turn(collection, `select ${collection} ${JSON.stringify(query.columns)}`, signal);
    const { limit, offset = 0 } = page;
    return this.#matching(collection, query).slice(offset, offset + limit);
  }

  /** Deletes records by id and answers how many there were. Ids that are not there are no error. */
  async remove(collection: string, ids: readonly number[], signal: AbortSignal): Promise<number> {
    await this.#turn(collection, `remove ${collection}`, signal);
    return this.#store.take(collection, new Set(ids));
  }

  #matching(collection: string, { columns, compare = Object.is }: MemoryQuery): readonly MemoryRecord[] {
    const wanted = Object.entries(columns);
    return this.#store
      .records(collection)
      .filter(({ key }) =>
        wanted.every(([column, value]) => Object.hasOwn(key, column) && compare(key[column] ?? '', value)),
      );
  }
}
