/** The order in which things can be done that have to wait for each other. Pure; sizes are those of a schema. */

/** `before` has to be done before `after`. */
export interface Precedence<T> {
  readonly before: T;
  readonly after: T;
}

/** Things that are done at one position: one, or several that wait for each other. */
export interface Group<T> {
  readonly members: readonly T[];
  /** Whether the members wait for each other, or the one for itself. */
  readonly cyclic: boolean;
}

/**
 * Orders `nodes` so that each comes after all that it waits for; those that wait for each other come together. Where the
 * precedences leave a choice, the order of `nodes` decides, so that the same input has the same answer.
 *
 * Tarjan, "Depth-first search and linear graph algorithms" (1972): it finds the groups last first.
 */
export function orderGroups<T>(nodes: readonly T[], precedences: readonly Precedence<T>[]): readonly Group<T>[] {
  const after = successors(nodes, precedences);
  const found: Group<T>[] = [];
  const index = new Map<T, number>();
  const low = new Map<T, number>();
  const path: T[] = [];

  const visit = (node: T): void => {
    index.set(node, index.size);
    low.set(node, index.get(node)!);
    path.push(node);
    for (const next of after.get(node)!) {
      if (!index.has(next)) {
        visit(next);
        low.set(node, Math.min(low.get(node)!, low.get(next)!));
      } else if (path.includes(next)) {
        low.set(node, Math.min(low.get(node)!, index.get(next)!));
      }
    }
    if (low.get(node) === index.get(node)) {
      const taken = new Set(path.splice(path.indexOf(node)));
      const members = nodes.filter((member) => taken.has(member));
      found.push({ members, cyclic: members.length > 1 || after.get(node)!.has(node) });
    }
  };

  // From the last to the first, because the groups come out last first.
  for (const node of nodes.toReversed()) if (!index.has(node)) visit(node);
  return found.reverse();
}

/** Whether `to` can be reached from `from` over one or more precedences. */
export function leadsTo<T>(from: T, to: T, precedences: readonly Precedence<T>[]): boolean {
  const seen = new Set<T>();
  const open = [from];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    for (const { before, after } of precedences) {
      if (before !== node || seen.has(after)) continue;
      if (after === to) return true;
      seen.add(after);
      open.push(after);
    }
  }
  return false;
}

function successors<T>(nodes: readonly T[], precedences: readonly Precedence<T>[]): Map<T, Set<T>> {
  const after = new Map<T, Set<T>>(nodes.map((node) => [node, new Set<T>()]));
  for (const precedence of precedences) after.get(precedence.before)?.add(precedence.after);
  return after;
}
