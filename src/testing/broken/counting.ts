/** Targets whose counts are not what is there. */
import type {
  Answers,
  Cleanup,
  EraseOptions,
  EraseProgress,
  EraseSubject,
  Place,
  PlaceCount,
  SubjectBatch,
} from '../../targets/target.js';
import type { MemoryQuery } from '../memory-store.js';
import { MemoryTarget } from '../memory-target.js';

/** Verifies an erase by subtracting what the deletes reported from what was there before, and does not look again. */
export class BelievesTheRowCount extends MemoryTarget {
  readonly #believed = new Map<string, number>();

  protected override async eraseIn(
    place: string,
    query: MemoryQuery,
    limit: number,
    signal: AbortSignal,
  ): Promise<number> {
    const key = JSON.stringify([place, query.columns]);
    const before = this.#believed.get(key) ?? (await super.countIn(place, query, signal));
    const rows = await super.eraseIn(place, query, limit, signal);
    this.#believed.set(key, before - rows);
    return rows;
  }

  protected override async countIn(place: string, query: MemoryQuery, signal: AbortSignal): Promise<number> {
    const key = JSON.stringify([place, query.columns]);
    const believed = this.#believed.get(key);
    this.#believed.delete(key);
    return believed === undefined ? super.countIn(place, query, signal) : Math.max(0, believed);
  }
}

/** Keeps counts until it erases something itself: what others write in between is not seen. */
export class StaleCache extends MemoryTarget {
  readonly #cache = new Map<string, number>();

  override async erase(batch: SubjectBatch<EraseSubject>, options: EraseOptions): Promise<Answers<EraseProgress>> {
    this.#cache.clear();
    return super.erase(batch, options);
  }

  protected override async countIn(place: string, query: MemoryQuery, signal: AbortSignal): Promise<number> {
    const key = JSON.stringify([place, query.columns]);
    const count = this.#cache.get(key) ?? (await super.countIn(place, query, signal));
    this.#cache.set(key, count);
    return count;
  }
}

/** Counts the first page of an answer that has several. */
export class CountsOnePage extends MemoryTarget {
  protected override async countIn(place: string, query: MemoryQuery, signal: AbortSignal): Promise<number> {
    const page = await this.ask(place, () => this.counting.select(place, query, { limit: 6 }, signal));
    return page.length;
  }
}

/** Leaves places out of its answer that hold nothing, so that nobody can tell them from those it forgot. */
export class OmitsEmptyPlaces extends MemoryTarget {
  override async count(batch: SubjectBatch, signal: AbortSignal): Promise<Answers<readonly PlaceCount[]>> {
    const answers = await super.count(batch, signal);
    return new Map(
      [...answers].map(([ref, answer]) => [
        ref,
        answer instanceof Error ? answer : answer.filter(({ matched }) => matched > 0),
      ]),
    );
  }
}

/** Keeps rows by law, without saying which. */
export class RetainsWithoutBasis extends MemoryTarget {
  override async describe(signal: AbortSignal): Promise<readonly Place[]> {
    return (await super.describe(signal)).map((place, index) =>
      index === 0 ? { ...place, action: 'retain', basis: null } : place,
    );
  }
}

/** Reports a clean-up of everything, whatever it was asked for. */
export class CleansUpElsewhere extends MemoryTarget {
  async cleanup(): Promise<readonly Cleanup[]> {
    return this.places.map(([place]) => ({ place, did: ['vacuum'], left: [] }));
  }
}
