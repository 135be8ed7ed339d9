/** What is left of subjects: one statement per place for any number of them, in one snapshot (contract WF-19). */
import type { PlaceCount, SubjectRef } from '../target.js';
import type { BoundPlace } from '../tables/bound-place.js';
import type { Query } from './connection.js';
import { columnSql, equals, Parameters, type Scope, scopeOf, tableSql, todoSql } from './sql.js';
import type { Subjects } from '../tables/subjects.js';

interface CountRow {
  readonly ref: number;
  readonly matched: number;
  readonly retained: number;
  readonly until: string | null;
}

/** Counts every place for every subject. `query` belongs to a transaction with one snapshot. */
export async function countPlaces(
  query: Query,
  places: readonly BoundPlace[],
  subjects: Subjects,
): Promise<ReadonlyMap<SubjectRef, readonly PlaceCount[]>> {
  const counts = new Map<SubjectRef, PlaceCount[]>(subjects.refs.map((ref) => [ref, []]));
  for (const place of places) {
    const parentless = await countParentless(query, place);
    const rows = await countPlace(query, place, subjects);
    for (const [index, ref] of subjects.refs.entries()) {
      const row = rows.get(index + 1);
      counts.get(ref)!.push({
        place: place.place,
        matched: row?.matched ?? 0,
        retained: row?.retained ?? 0,
        retainedUntil: row?.until ?? null,
        superseded: 0,
        parentless,
        unverifiable: null,
      });
    }
  }
  return counts;
}

async function countPlace(query: Query, place: BoundPlace, subjects: Subjects): Promise<ReadonlyMap<number, CountRow>> {
  const parameters = new Parameters();
  const scope = scopeOf(place, 't', subjects, parameters);
  const columns = [
    `${scope.ref} AS ref`,
    `${todoSql(place, 't', parameters)} AS todo`,
    `${untilSql(place, scope, parameters)} AS until`,
  ];
  // A row with several parent rows is one row all the same.
  const distinct = place.link.by === 'parent' && !isSingle(place) ? 'DISTINCT t.tableoid, t.ctid, ' : '';
  const rows = await query<CountRow>(
    `SELECT ref::int AS ref,
            count(*) FILTER (WHERE todo)::float8 AS matched,
            ${place.keep ? 'count(*) FILTER (WHERE NOT todo)::float8' : '0::float8'} AS retained,
            CASE WHEN bool_and(isfinite(until)) FILTER (WHERE NOT todo)
                 THEN to_char(max(until) FILTER (WHERE NOT todo), 'YYYY-MM-DD') END AS until
       FROM (SELECT ${distinct}${columns.join(', ')}
               FROM ${[`${tableSql(place.relation)} AS t`, ...scope.from].join(', ')}
              WHERE ${scope.where.join(' AND ')}) AS found
      GROUP BY ref`,
    parameters.values,
    place.place,
  );
  return new Map(rows.map((row) => [row.ref, row]));
}

function isSingle(place: BoundPlace): boolean {
  return place.link.by === 'key' || (place.link.single && isSingle(place.link.parent));
}

/** When a row's time is over; -infinity where it has no start, so that no end is claimed for the whole. */
function untilSql({ keep, link }: BoundPlace, scope: Scope, parameters: Parameters): string {
  if (!keep) return 'NULL::timestamp';
  const from = columnSql(link.by === 'parent' ? scope.aliases.get(link.parent)! : 't', keep.column);
  const local = keep.column.typeName === 'timestamptz' ? `(${from} AT TIME ZONE 'UTC')` : `${from}::timestamp`;
  return `coalesce(${local} + ${parameters.add(keep.for, 'interval')}, '-infinity')`;
}

/**
 * Rows of anybody's whose parent does not exist (contract WF-16): a whole-table anti-join. Where a validated foreign key
 * with all its triggers on stands over these columns, and no trigger or rule of the table could suppress what it does,
 * there can be none, and the table is not read: with ten million lines this is most of what a count costs.
 */
async function countParentless(query: Query, place: BoundPlace): Promise<number | null> {
  const { link } = place;
  if (link.by !== 'parent') return null;
  if (link.foreignKey?.enforced && !place.relation.mayRefuseSilently && place.relation.kind === 'table') return 0;
  const present = link.on.map(({ column }) => `${columnSql('t', column)} IS NOT NULL`);
  const same = link.on.map(
    ({ column, parentColumn }) => `${columnSql('t', column)} ${equals(column)} ${columnSql('p', parentColumn)}`,
  );
  const [row] = await query<{ readonly parentless: number }>(
    `SELECT count(*)::float8 AS parentless
       FROM ${tableSql(place.relation)} AS t
      WHERE ${present.join(' AND ')}
        AND NOT EXISTS (SELECT 1 FROM ${tableSql(link.parent.relation)} AS p WHERE ${same.join(' AND ')})`,
    [],
    place.place,
  );
  return row?.parentless ?? null;
}
