/**
 * Asks the server what the catalogue does not say: whether a column takes the value that it is to be set to and has it
 * afterwards as it was written, and whether the columns of a relation can be compared.
 */
import type { Problem } from '../tables/bind-places.js';
import type { BoundPlace, SetColumn } from '../tables/bound-place.js';
import type { Connections, Query } from './connection.js';
import { ServerRefusal } from './faults.js';
import { columnSql, equals, tableSql } from './sql.js';

export async function probeProblems(
  connections: Connections,
  places: readonly BoundPlace[],
  signal: AbortSignal,
): Promise<readonly Problem[]> {
  const problems: Problem[] = [];
  for (const place of places) {
    for (const set of place.set.filter(({ value }) => value !== null)) {
      const taken = await answers(connections, signal, (query) => takes(query, set));
      const text = `sets "${set.column.name}" of type ${set.column.declaredType} to a value that it does not take as it is written`;
      if (taken !== true) problems.push({ place: place.place, text });
    }
    const comparable = await answers(connections, signal, (query) => compares(query, place));
    if (comparable === null) {
      problems.push({ place: place.place, text: 'is reached through columns that the database cannot compare' });
    }
  }
  return problems;
}

/** The answer, or null where the server refuses the statement for what it says. */
async function answers(
  connections: Connections,
  signal: AbortSignal,
  ask: (query: Query) => Promise<boolean>,
): Promise<boolean | null> {
  try {
    return await connections.transaction('read', signal, ask);
  } catch (fault) {
    if (fault instanceof ServerRefusal && ['21', '22', '23', '42'].includes(fault.sqlstate.slice(0, 2))) return null;
    throw fault;
  }
}

/** A value that is cut or rounded would never be found equal to what was asked for. */
async function takes(query: Query, { column, value }: SetColumn): Promise<boolean> {
  const cast = column.typeName === 'json' ? '::jsonb' : column.category === 'S' ? '::text' : '';
  const [row] = await query<{ readonly same: boolean }>(
    `SELECT ($1::${column.type})${cast} IS NOT DISTINCT FROM ($1::${column.type}::${column.declaredType}::${column.type})${cast} AS same`,
    [value],
  );
  return row?.same === true;
}

async function compares(query: Query, { relation, link }: BoundPlace): Promise<boolean> {
  if (link.by !== 'parent') return true;
  const on = link.on.map(
    ({ column, parentColumn }) => `${columnSql('t', column)} ${equals(column)} ${columnSql('p', parentColumn)}`,
  );
  await query(
    `SELECT FROM ${tableSql(relation)} AS t JOIN ${tableSql(link.parent.relation)} AS p ON ${on.join(' AND ')} LIMIT 0`,
  );
  return true;
}
