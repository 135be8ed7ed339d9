/**
 * THE EXAMPLE: a complete, correct target in one file. Read it to add a data system of your own.
 *
 * A target needs three methods: `describe` (which places are there), `count` (what is left of a subject) and `erase`
 * (one bounded slice of work). `revoke` and `locate` are optional; this one has both. Then:
 *
 *     describeTarget('memory', { open, identifiers: ['tenantId', 'customerId'] })
 *
 * runs the conformance kit against it; `memory-harness.ts` is the `open` of this one. The rules that the kit holds it to,
 * and where each is kept below:
 *
 * 1. Match exactly: whole values, every column, never a pattern (`#query`).
 * 2. An empty key is refused before anything is touched (`#query`).
 * 3. Erase at most `limit` records in one call, over all subjects together (`erase`).
 * 4. Answer for every ref of the batch, also for those that got no turn (`erase`).
 * 5. The cursor is all that is remembered, holds no key, and may be old or lost (`startOf`).
 * 6. `count` believes nothing that `erase` was told: it asks the store, on a connection of its own (`count`).
 * 7. What is already gone is success; a place that is gone is an error (`asTargetError`).
 * 8. Errors tell the class of the fault by a code, and never quote the driver: it prints values (`asTargetError`).
 */
import type { JsonValue } from '../storage/json.js';
import {
  TargetDeclarationError,
  type TargetError,
  TargetFailedError,
  TargetUnavailableError,
} from '../targets/target-error.js';
import type {
  Answers,
  EraseOptions,
  EraseProgress,
  EraseSubject,
  LocatorQuery,
  Place,
  PlaceCount,
  SubjectBatch,
  Target,
  TargetDeclaration,
  TargetSubject,
} from '../targets/target.js';
import { MemoryStoreError, type MemoryConnection, type MemoryQuery, type MemoryStore } from './memory-store.js';

/** @typeParam I - the identifiers that the places use. */
export interface MemoryOptions<I extends string> {
  readonly store: MemoryStore;
  /** The columns of each collection that hold an identifier; several columns are one composite key. */
  readonly places: Readonly<Record<string, readonly I[]>>;
  /** The collection whose records give access, by the same columns. */
  readonly sessions?: { readonly collection: string; readonly key: readonly I[] };
}

/**
 * Declares a memory target, as it would stand in the configuration.
 *
 * The declaration is data: `plan` says all that the target will do, and no secret. Its digest is approved together with
 * the request, so that nobody can change the plan between the approval and the erase.
 */
export function memory<I extends string>(options: MemoryOptions<I>): TargetDeclaration<I> {
  const { store, places, sessions } = options;
  return {
    kind: 'memory',
    handlerVersion: 1,
    plan: { places, ...(sessions && { sessions: { ...sessions } }) },
    identifiers: [...new Set([...Object.values(places).flat(), ...(sessions?.key ?? [])])],
    locators: {},
    revokes: sessions !== undefined,
    open: (name) => new MemoryTarget(name, store, options),
  };
}

/** The method names without `#` are what the deliberately broken targets override; a real target has no need of them. */
export class MemoryTarget implements Target {
  readonly name: string;
  protected readonly places: readonly (readonly [place: string, columns: readonly string[]])[];
  readonly #sessions: MemoryOptions<string>['sessions'];
  /** Rule 6: what counts is not what erases. */
  protected readonly counting: MemoryConnection;
  protected readonly erasing: MemoryConnection;

  constructor(name: string, store: MemoryStore, options: Omit<MemoryOptions<string>, 'store'>) {
    this.name = name;
    this.places = Object.entries(options.places);
    this.#sessions = options.sessions;
    this.counting = store.connect();
    this.erasing = store.connect();
  }

  async describe(signal: AbortSignal): Promise<readonly Place[]> {
    for (const [place] of this.places) await this.ask(place, () => this.counting.check(place, signal));
    return this.places.map(([place]) => ({ place, action: 'delete', basis: null }));
  }

  async count(batch: SubjectBatch, signal: AbortSignal): Promise<Answers<readonly PlaceCount[]>> {
    return this.#each(batch, async (subject) => {
      const counts: PlaceCount[] = [];
      for (const [place, columns] of this.places) {
        const matched = await this.countIn(place, this.query(place, columns, subject), signal);
        const untouched = { retained: 0, retainedUntil: null, superseded: 0, parentless: null, unverifiable: null };
        counts.push({ place, matched, ...untouched });
      }
      return counts;
    });
  }

  protected countIn(place: string, query: MemoryQuery, signal: AbortSignal): Promise<number> {
    return this.ask(place, () => this.counting.count(place, query, signal));
  }

  async erase(batch: SubjectBatch<EraseSubject>, options: EraseOptions): Promise<Answers<EraseProgress>> {
    let left = options.limit;
    return this.#each(batch, async (subject) => {
      // Rule 4: with nothing left of the limit, this answers "not done" from where the subject is.
      const progress = await this.eraseSubject(subject, left, options.signal);
      left -= progress.reported.reduce((sum, { rows }) => sum + rows, 0);
      return progress;
    });
  }

  /** Goes through the places from where the cursor is, until the slice has erased `limit` records. */
  protected async eraseSubject(subject: EraseSubject, limit: number, signal: AbortSignal): Promise<EraseProgress> {
    const reported: { place: string; rows: number }[] = [];
    let left = limit;
    let index = startOf(subject.cursor, this.places.length);
    for (; index < this.places.length && left > 0; index += 1) {
      const [place, columns] = this.places[index] as (typeof this.places)[number];
      const rows = await this.eraseIn(place, this.query(place, columns, subject), left, signal);
      reported.push({ place, rows });
      left -= rows;
      if (left === 0) break; // This place may hold more.
    }
    const done = index === this.places.length;
    // Done answers null: whoever goes on from there looks at everything again, and finds what came back meanwhile.
    return { cursor: done ? null : { place: index }, done, reported };
  }

  /** Erases at most `limit` records of one subject in one place, and answers how many there were. */
  protected async eraseIn(place: string, query: MemoryQuery, limit: number, signal: AbortSignal): Promise<number> {
    const records = await this.ask(place, () => this.erasing.select(place, query, { limit }, signal));
    const ids = records.map(({ id }) => id);
    return ids.length === 0 ? 0 : this.ask(place, () => this.erasing.remove(place, ids, signal));
  }

  async revoke(batch: SubjectBatch, signal: AbortSignal): Promise<Answers<readonly { place: string; rows: number }[]>> {
    const sessions = this.#sessions;
    return this.#each(batch, async (subject) => {
      if (sessions === undefined) return [];
      const { collection: place, key } = sessions;
      return [{ place, rows: await this.eraseIn(place, this.query(place, key, subject), Infinity, signal) }];
    });
  }

  async locate(
    batch: SubjectBatch,
    queries: Readonly<Record<string, LocatorQuery>>,
    signal: AbortSignal,
  ): Promise<Answers<Readonly<Record<string, readonly string[]>>>> {
    return this.#each(batch, async (subject) => {
      const found: [string, readonly string[]][] = [];
      for (const [name, { place, column }] of Object.entries(queries)) {
        found.push([name, await this.locateIn(place, column, subject, signal)]);
      }
      return Object.fromEntries(found);
    });
  }

  protected async locateIn(
    place: string,
    column: string,
    subject: TargetSubject,
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    const columns = this.places.find(([name]) => name === place)?.[1];
    if (columns === undefined) {
      throw new TargetDeclarationError(`${this.name} has no place ${place}: correct the locator`, this.#at(place));
    }
    const query = this.query(place, columns, subject);
    const records = await this.ask(place, () => this.counting.select(place, query, { limit: Infinity }, signal));
    return [...new Set(records.flatMap(({ key }) => (Object.hasOwn(key, column) ? [key[column] ?? ''] : [])))];
  }

  async close(): Promise<void> {
    // Nothing is held: a real target ends its connections here.
  }

  /** Rules 1 and 2: which records are this subject's, and whose they never are. */
  protected query(place: string, columns: readonly string[], { identifiers }: TargetSubject): MemoryQuery {
    const wanted: [string, string][] = columns.map((column) => {
      const value = Object.hasOwn(identifiers, column) ? identifiers[column] : undefined;
      if (value === undefined || value === '') {
        throw new TargetFailedError(
          `${this.name} got a subject without a value for ${column}: nothing was touched`,
          this.#at(place, 'EMPTY_KEY'),
        );
      }
      return [column, value];
    });
    return { columns: Object.fromEntries(wanted) };
  }

  /** Calls the store, and turns what its driver throws into what the engine understands. */
  protected async ask<T>(place: string, call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      throw this.asTargetError(place, error);
    }
  }

  /** Rules 7 and 8. The engine waits for what is unavailable, tries again what failed, and gives up on the rest. */
  protected asTargetError(place: string, error: unknown): unknown {
    if (!(error instanceof MemoryStoreError)) return error; // An abort, or a mistake of ours.
    const detail = this.#at(place, error.code);
    if (error.code === 'NO_SUCH_COLLECTION') {
      return new TargetDeclarationError(`${this.name} has no collection ${place}: correct the declaration`, detail);
    }
    return new TargetUnavailableError(`${this.name} does not answer for ${place}: it is tried again later`, detail);
  }

  #at(place: string, cause?: string): { target: string; place: string; cause?: string } {
    return { target: this.name, place, ...(cause !== undefined && { cause }) };
  }

  /**
   * Answers for every subject. An error that is one subject's alone is that subject's answer; a fault of the store is
   * everybody's, and is thrown.
   */
  async #each<S extends TargetSubject, T>(
    batch: SubjectBatch<S>,
    work: (subject: S) => Promise<T>,
  ): Promise<Answers<T>> {
    const answers = new Map<string, T | TargetError>();
    for (const [ref, subject] of batch) {
      try {
        answers.set(ref, await work(subject));
      } catch (error) {
        if (!(error instanceof TargetFailedError)) throw error;
        answers.set(ref, error);
      }
    }
    return answers;
  }
}

/** Rule 5: where to start. A cursor that says nothing useful, or none, starts at the beginning: that is always safe. */
function startOf(cursor: JsonValue, places: number): number {
  if (typeof cursor !== 'object' || cursor === null || !('place' in cursor)) return 0;
  const { place } = cursor;
  return typeof place === 'number' && Number.isInteger(place) && place >= 0 && place < places ? place : 0;
}
