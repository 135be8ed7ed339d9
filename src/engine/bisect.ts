/** Finds the one bad row of a set, so that it alone is stopped (architecture.md, "Batch-native"). */
import { faultOf, sendAgain } from './database-fault.js';

export interface Bisected<I, R> {
  readonly results: readonly R[];
  /** The items that fail alone, each with its error. */
  readonly failed: readonly { readonly item: I; readonly error: unknown }[];
}

/**
 * Applies `apply` to all items at once; where that throws, to each half, down to single items. The number of calls is at
 * most twice the number of items.
 *
 * @param isNobodys - whether an error is no item's fault: it is thrown at once, and what was not applied yet stays undone.
 */
export async function bisect<I, R>(
  items: readonly I[],
  apply: (items: readonly I[]) => Promise<R>,
  isNobodys: (error: unknown) => boolean | Promise<boolean>,
): Promise<Bisected<I, R>> {
  const [first] = items;
  if (first === undefined) return { results: [], failed: [] };
  try {
    return { results: [await apply(items)], failed: [] };
  } catch (error) {
    if (await isNobodys(error)) throw error;
    if (items.length === 1) return { results: [], failed: [{ item: first, error }] };
    const middle = Math.ceil(items.length / 2);
    const left = await bisect(items.slice(0, middle), apply, isNobodys);
    const right = await bisect(items.slice(middle), apply, isNobodys);
    return { results: [...left.results, ...right.results], failed: [...left.failed, ...right.failed] };
  }
}

/**
 * The same for statements on Expunge's own database: a deadlock or a lock that was not to be had is tried again first, and
 * a database that can write nothing is nobody's fault.
 */
export function bisectStatement<I, R>(
  items: readonly I[],
  apply: (items: readonly I[]) => Promise<R>,
): Promise<Bisected<I, R>> {
  return bisect(
    items,
    (part) => sendAgain(() => apply(part)),
    (error) => faultOf(error) === 'database',
  );
}
