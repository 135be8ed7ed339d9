/** What references what: the foreign keys that a change of a table's rows reaches. */
import type { Catalogue, ForeignKey, Relation } from './catalogue.js';

/** How rows of a table are changed, as far as foreign keys care: deleted, or updated in these columns. */
export type RowChange = 'delete' | readonly string[];

/** The foreign keys that reach `relation` and look at the change: any delete, or an update of a referenced column. */
export function keysReached(catalogue: Catalogue, relation: Relation, change: RowChange): readonly ForeignKey[] {
  return catalogue.foreignKeys.filter(
    (key) =>
      key.parent === relation.oid && (change === 'delete' || change.some((name) => key.parentColumns.includes(name))),
  );
}

/** A foreign key of a table that nobody declared, with how it is reached. */
export interface UndeclaredReference {
  readonly key: ForeignKey;
  readonly table: Relation;
  /** The undeclared table through whose ON DELETE CASCADE this one is reached; null where it references a declared one. */
  readonly through: Relation | null;
}

/**
 * The tables outside of `declared` whose rows a change of `relation` would refuse over, delete or alter, first those that
 * reference it, then those that a cascade through them would reach.
 */
export function undeclaredReferences(
  catalogue: Catalogue,
  relation: Relation,
  change: RowChange,
  declared: ReadonlySet<number>,
): readonly UndeclaredReference[] {
  const found: UndeclaredReference[] = [];
  const seen = new Set<ForeignKey>();
  const follow = (keys: readonly ForeignKey[], through: Relation | null): void => {
    for (const key of keys) {
      const table = catalogue.relations.get(key.child);
      if (!table || declared.has(key.child) || seen.has(key)) continue;
      seen.add(key);
      found.push({ key, table, through });
      if (key.onDelete === 'CASCADE') follow(keysReached(catalogue, table, 'delete'), table);
    }
  };
  follow(keysReached(catalogue, relation, change), null);
  return found;
}
