/**
 * Holds the places against the foreign keys, so that nothing outside of the inventory is deleted, changed or in the way
 * (contract WF-10). What depends on rows and not on the schema is looked at before each erase, by `obstacles.ts`.
 */
import { type Catalogue, type ForeignKey, relationName } from '../../schema/catalogue.js';
import { keysReached, undeclaredReferences } from '../../schema/references.js';
import type { Problem } from './bind-places.js';
import { acts, type BoundPlace, changeOf, coversReferences, releases } from './bound-place.js';

export function referenceProblems(places: readonly BoundPlace[], catalogue: Catalogue): readonly Problem[] {
  const declared = new Set(places.map(({ relation }) => relation.oid));
  return [
    ...places.filter(acts).flatMap((place) => undeclaredProblems(place, catalogue, declared)),
    ...places.filter(acts).flatMap((place) => keptProblems(place, places, catalogue)),
    ...places.flatMap(linkProblems),
    ...places.flatMap((place) => heirProblems(place, catalogue, declared)),
  ];
}

function undeclaredProblems(
  place: BoundPlace,
  catalogue: Catalogue,
  declared: ReadonlySet<number>,
): readonly Problem[] {
  const found = undeclaredReferences(catalogue, place.relation, changeOf(place), declared);
  if (found.length === 0) return [];
  const named = found.map(({ key, table, through }) => {
    const how = through ? `, reached by the cascade through "${relationName(through)}"` : '';
    return `"${relationName(table)}" (${key.name}, ${effect(place, key)}${how})`;
  });
  return [
    { place: place.place, text: `is referenced by tables that are not declared: ${named.join(', ')}; declare them` },
  ];
}

function effect(place: BoundPlace, key: ForeignKey): string {
  return place.action === 'delete' ? `ON DELETE ${key.onDelete}` : `ON UPDATE ${key.onUpdate}`;
}

/** Rows that stay and go on referencing what is deleted: the key would refuse the delete, or change what has to stay. */
function keptProblems(struck: BoundPlace, places: readonly BoundPlace[], catalogue: Catalogue): readonly Problem[] {
  return keysReached(catalogue, struck.relation, changeOf(struck)).flatMap((key) => {
    const ofChild = places.filter((place) => place.relation.oid === key.child);
    const releasing = ofChild.filter((place) => releases(place, key));
    const kept = ofChild.filter(
      (place) => !releases(place, key) && (releasing.length === 0 || coversReferences(place, struck, key)),
    );
    return kept.map((place) => ({
      place: place.place,
      text: `keeps rows that reference "${struck.place}" (${key.name}, ${effect(struck, key)}), which is ${
        struck.action === 'delete' ? 'deleted' : 'overwritten'
      }; delete them too, or set ${key.childColumns.map((name) => `"${name}"`).join(', ')} to null`,
    }));
  });
}

/** What is reached through a parent that is deleted has to go with it, or let go of it, whether a foreign key says so or not. */
function linkProblems(place: BoundPlace): readonly Problem[] {
  const { link } = place;
  if (link.by !== 'parent' || link.parent.action !== 'delete' || place.action === 'delete') return [];
  if (place.vanishes) return [];
  const columns = link.on.map(({ column }) => `"${column.name}"`).join(', ');
  return [
    {
      place: place.place,
      text: `keeps rows through "${link.parent.place}", which is deleted, so that they would be left without their parent; delete them too, or set ${columns} to null`,
    },
  ];
}

/** Tables that inherit hold rows of their own, which a statement on the declared table alone does not touch. */
function heirProblems(place: BoundPlace, catalogue: Catalogue, declared: ReadonlySet<number>): readonly Problem[] {
  const heirs = [...catalogue.relations.values()].filter(
    (relation) => relation.inherits.includes(place.relation.oid) && !declared.has(relation.oid),
  );
  if (heirs.length === 0) return [];
  const named = heirs.map((relation) => `"${relationName(relation)}"`).join(', ');
  return [
    { place: place.place, text: `has tables that inherit from it and hold rows of their own: ${named}; declare them` },
  ];
}
