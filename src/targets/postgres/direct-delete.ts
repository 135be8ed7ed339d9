/**
 * Deletes rows at once, for the places where nothing has to happen between the lock and the delete: nothing is reached
 * through these rows, nobody else's rows can reference them, and no trigger or rule stands in the way.
 *
 * Most rows of a subject are of this kind (lines, events, visits), so that this statement decides what an erase costs. A
 * separate lock in the order of the key made it two and a half times as slow as a plain DELETE; this is as fast. The list of
 * places is read in their physical order, which is the same for everybody who deletes like this; whoever locks the same
 * rows in another order may cause a deadlock, and the transaction that lost it is run again.
 */
import type { BoundPlace } from '../tables/bound-place.js';
import type { Query } from './connection.js';
import type { PerSubject } from './row-statements.js';
import { columnSql, equals, isNamedBy, type NamedRows, Parameters, scopeOf, tableSql } from './sql.js';
import type { Subjects } from '../tables/subjects.js';

export interface Deleted {
  readonly perSubject: PerSubject;
  readonly rows: number;
  /** Rows that were found; fewer are deleted where somebody changed them meanwhile, or something keeps them. */
  readonly found: number;
}

/** Whether the place's rows can be deleted at once, as the subjects' own or as children of rows that are locked. */
export function canDeleteDirectly(place: BoundPlace, above?: NamedRows): boolean {
  const { action, relation, link } = place;
  if (action !== 'delete' || relation.kind !== 'table' || relation.mayRefuseSilently) return false;
  return above === undefined ? link.by === 'key' : isNamedBy(place, above);
}

/**
 * Deletes at most `limit` rows of a place for which `canDeleteDirectly` holds.
 *
 * The conditions on the row itself stand in the DELETE once more: where it waited for somebody who changed the row, the
 * server looks at them again, and a row that changed hands is left alone.
 */
export async function deleteDirectly(
  query: Query,
  place: BoundPlace,
  subjects: Subjects,
  limit: number,
  above?: NamedRows,
): Promise<Deleted> {
  const parameters = new Parameters();
  const scope = scopeOf(place, 't', subjects, parameters, above ? { above } : {});
  // Of several columns each may have a value of its list, and the row still be nobody's.
  const together = `EXISTS (SELECT 1 FROM ${scope.from.join(', ')} WHERE ${scope.where.join(' AND ')})`;
  const where = [...scope.own, ...(scope.joins.length > 1 ? [together] : [])].join(' AND ');
  const returned = scope.joins.map(({ column }, index) => `${columnSql('t', column)} AS c${index}`);
  const joined = scope.joins.map(({ column, to }, index) => `gone.c${index} ${equals(column)} ${to}`);
  const rows = await query<{ readonly ref: number | null; readonly found: number; readonly rows: number }>(
    `WITH found AS MATERIALIZED (
       SELECT t.ctid AS at FROM ${tableSql(place.relation)} AS t WHERE ${where} LIMIT ${parameters.add(limit, 'bigint')}
     ), gone AS (
       DELETE FROM ${tableSql(place.relation)} AS t
        WHERE t.ctid = ANY (ARRAY(SELECT at FROM found)) AND ${where}
       RETURNING ${returned.join(', ')}
     )
     SELECT NULL AS ref, (SELECT count(*)::float8 FROM found) AS found, (SELECT count(*)::float8 FROM gone) AS rows
      UNION ALL
     SELECT ${scope.ref}::int, 0, count(*)::float8
       FROM ${['gone', ...scope.from].join(', ')} WHERE ${joined.join(' AND ')} GROUP BY ${scope.ref}`,
    parameters.values,
    place.place,
  );
  const total = rows.find(({ ref }) => ref === null)!;
  const perSubject = new Map(rows.flatMap(({ ref, rows: count }) => (ref === null ? [] : [[ref, count] as const])));
  return { perSubject, rows: total.rows, found: total.found };
}
