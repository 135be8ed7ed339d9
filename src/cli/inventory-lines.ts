/** An inventory for people: of a training target its communities, of an erasure every place with its count. */
import type { JsonObject, JsonValue } from '../storage/json.js';
import { table } from './table.js';

/** Counts in one line: `2 targets, 3 places, 41 copies`. */
export function inventorySummary(inventory: JsonObject): string {
  const targets = objects(inventory['targets']);
  if (targets.length === 0) return count(objects(inventory['communities']).length, 'community', 'communities');
  const places = targets.flatMap((target) => objects(target['places']));
  const copies = places.reduce(
    (sum, { count: copiesHere }) => sum + (typeof copiesHere === 'number' ? copiesHere : 0),
    0,
  );
  return [
    count(targets.length, 'target', 'targets'),
    count(places.length, 'place', 'places'),
    count(copies, 'copy', 'copies'),
  ].join(', ');
}

/** One line a place or community. */
export function inventoryTable(inventory: JsonObject): string {
  const targets = objects(inventory['targets']);
  if (targets.length === 0) {
    return table(
      ['COMMUNITY', 'ROLE'],
      objects(inventory['communities']).map(({ id, role }) => [text(id), text(role)]),
    );
  }
  const rows = targets.flatMap((target) =>
    objects(target['places']).map((place) => [
      text(target['name']),
      text(place['place']),
      text(place['action']),
      text(place['count']),
      text(place['basis']),
    ]),
  );
  return table(['TARGET', 'PLACE', 'ACTION', 'COPIES', 'BASIS'], rows);
}

function objects(value: JsonValue | undefined): readonly JsonObject[] {
  return Array.isArray(value) ? (value as readonly JsonObject[]) : [];
}

function text(value: JsonValue | undefined): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '-';
}

function count(number: number, one: string, many: string): string {
  return `${number} ${number === 1 ? one : many}`;
}
