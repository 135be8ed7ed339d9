/** Finds the one bad row of a set, so that it alone is stopped (architecture.md, "Batch-native"). */
import { isExpungeError } from '../observe/expunge-error.js';

export interface Bisected<I, R> {
  readonly results: readonly R[];
  /** The items that fail alone, each with its error. */
  readonly failed: readonly { readonly item: I; readonly error: unknown }[];
}

/**
 * Applies `apply` to all items at once; where that throws, to each half, down to single items. A database that cannot be
 * reached is nobody's fault and is thrown at once.
 */
export async function bisect<I, R>(
  items: readonly I[],
  apply: (items: readonly I[]) => Promise<R>,
): Promise<Bisected<I, R>> {
  const [first] = items;
  if (first === undefined) return { results: [], failed: [] };
  try {
    return { results: [await apply(items)], failed: [] };
  } catch (error) {
    if (isExpungeError(error, 'DATABASE_UNAVAILABLE')) throw error;
    if (items.length === 1) return { results: [], failed: [{ item: first, error }] };
    const middle = Math.ceil(items.length / 2);
    const left = await bisect(items.slice(0, middle), apply);
    const right = await bisect(items.slice(middle), apply);
    return { results: [...left.results, ...right.results], failed: [...left.failed, ...right.failed] };
  }
}
