/** Targets that take one subject for another. */
import type {
  Answers,
  EraseOptions,
  EraseProgress,
  EraseSubject,
  SubjectBatch,
  TargetSubject,
} from '../../targets/target.js';
import type { MemoryQuery } from '../memory-store.js';
import { MemoryTarget } from '../memory-target.js';

/** LIKE where equality was meant: `_` and `%` of an identifier match anything. */
export class LikeForEquality extends MemoryTarget {
  protected override query(place: string, columns: readonly string[], subject: TargetSubject): MemoryQuery {
    return { ...super.query(place, columns, subject), compare: like };
  }
}

function like(stored: string, wanted: string): boolean {
  const pattern = wanted
    .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    .replaceAll('_', '.')
    .replaceAll('%', '.*');
  return new RegExp(`^${pattern}$`, 's').test(stored);
}

/** A key pattern or prefix without its end: `u/1` deletes `u/10`. */
export class NeighboursPrefix extends MemoryTarget {
  protected override query(place: string, columns: readonly string[], subject: TargetSubject): MemoryQuery {
    return { ...super.query(place, columns, subject), compare: (stored, wanted) => stored.startsWith(wanted) };
  }
}

/** The first column of a composite key alone: one customer's deletion empties the tenant. */
export class FirstColumnOnly extends MemoryTarget {
  protected override query(place: string, columns: readonly string[], subject: TargetSubject): MemoryQuery {
    const [first, ...others] = columns;
    super.query(place, others, subject);
    return super.query(place, first === undefined ? [] : [first], subject);
  }
}

/** A collation that folds case and accents. */
export class FoldingCollation extends MemoryTarget {
  protected override query(place: string, columns: readonly string[], subject: TargetSubject): MemoryQuery {
    const { compare } = new Intl.Collator('en', { sensitivity: 'base', ignorePunctuation: false });
    return { ...super.query(place, columns, subject), compare: (stored, wanted) => compare(stored, wanted) === 0 };
  }
}

/** A key column that keeps 255 characters. */
export class TruncatedKey extends MemoryTarget {
  protected override query(place: string, columns: readonly string[], subject: TargetSubject): MemoryQuery {
    return {
      ...super.query(place, columns, subject),
      compare: (stored, wanted) => stored.slice(0, 255) === wanted.slice(0, 255),
    };
  }
}

/** A statement that is put together as text: a quote ends the value. */
export class ConcatenatedStatement extends MemoryTarget {
  protected override query(place: string, columns: readonly string[], subject: TargetSubject): MemoryQuery {
    const compare = (stored: string, wanted: string): boolean =>
      /^' OR '(.*)'='\1$/.test(wanted) || stored === wanted.replace(/".*$/, '');
    return { ...super.query(place, columns, subject), compare };
  }
}

/** A filter that is left out where there is no value for it: nobody's key is everybody's. */
export class EmptyFilter extends MemoryTarget {
  protected override query(_place: string, columns: readonly string[], { identifiers }: TargetSubject): MemoryQuery {
    return {
      columns: Object.fromEntries(
        columns.flatMap((column) => (identifiers[column] ? [[column, identifiers[column]]] : [])),
      ),
    };
  }
}

/** One statement for a batch, BETWEEN its smallest and its greatest key. */
export class BetweenTheBatch extends MemoryTarget {
  #range: readonly string[] = [];

  override async erase(batch: SubjectBatch<EraseSubject>, options: EraseOptions): Promise<Answers<EraseProgress>> {
    this.#range =
      batch.size > 1 ? [...batch.values()].flatMap(({ identifiers }) => Object.values(identifiers)).sort() : [];
    try {
      return await super.erase(batch, options);
    } finally {
      this.#range = [];
    }
  }

  protected override query(place: string, columns: readonly string[], subject: TargetSubject): MemoryQuery {
    const query = super.query(place, columns, subject);
    const [first, last] = [this.#range[0], this.#range.at(-1)];
    if (first === undefined || last === undefined) return query;
    return { ...query, compare: (stored) => stored >= first && stored <= last };
  }
}
