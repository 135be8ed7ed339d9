/** Finds what other targets need to know: values of a column of the subject's rows, while they are there (contract WF-17). */
import { findColumn } from '../../schema/catalogue.js';
import { TargetBlockedError, TargetDeclarationError, type TargetError } from '../target-error.js';
import type { Answers, LocatorQuery, SubjectRef } from '../target.js';
import type { BoundPlace } from '../tables/bound-place.js';
import type { Query } from './connection.js';
import type { Plan } from '../tables/plan.js';
import { columnSql, Parameters, scopeOf, tableSql } from './sql.js';
import type { Subjects } from '../tables/subjects.js';

/** Locators are sealed on the request; more of them than this are no locators. */
const MOST_VALUES = 100_000;

/** Answers, by locator name, the distinct values as text, in order and without NULL. */
export async function locateValues(
  query: Query,
  target: string,
  plan: Plan,
  subjects: Subjects,
  queries: Readonly<Record<string, LocatorQuery>>,
): Promise<Answers<Readonly<Record<string, readonly string[]>>>> {
  const found = new Map<SubjectRef, Record<string, readonly string[]>>(subjects.refs.map((ref) => [ref, {}]));
  const failures = new Map<SubjectRef, TargetError>();
  for (const [name, asked] of Object.entries(queries)) {
    const { place, column } = resolve(target, plan, asked);
    const values = await valuesOf(query, place, column, subjects);
    for (const [index, ref] of subjects.refs.entries()) {
      const own = values.get(index + 1) ?? [];
      found.get(ref)![name] = own;
      if (own.length > MOST_VALUES) failures.set(ref, tooMany(target, asked));
    }
  }
  return new Map(subjects.refs.map((ref) => [ref, failures.get(ref) ?? found.get(ref)!]));
}

function resolve(target: string, plan: Plan, asked: LocatorQuery): { place: BoundPlace; column: string } {
  const place = plan.places.find((one) => one.place === asked.place);
  const column = place && findColumn(plan.catalogue, place.relation, asked.column);
  if (place && column) return { place, column: columnSql('t', column) };
  throw new TargetDeclarationError(
    `Target "${target}" is asked for "${asked.column}" of "${asked.place}", which is no column of a declared place; correct the locator.`,
    { target, place: asked.place },
  );
}

/** One subject with too many is read only as far as shows that it has too many. */
async function valuesOf(
  query: Query,
  place: BoundPlace,
  column: string,
  subjects: Subjects,
): Promise<ReadonlyMap<number, readonly string[]>> {
  const parameters = new Parameters();
  const scope = scopeOf(place, 't', subjects, parameters);
  const rows = await query<{ readonly ref: number; readonly found: readonly string[] }>(
    `SELECT ref::int AS ref, array_agg(value ORDER BY value COLLATE "C") AS found
       FROM (SELECT ref, value, row_number() OVER (PARTITION BY ref) AS position
               FROM (SELECT DISTINCT ${scope.ref} AS ref, ${column}::text AS value
                       FROM ${[`${tableSql(place.relation)} AS t`, ...scope.from].join(', ')}
                      WHERE ${[...scope.where, `${column} IS NOT NULL`].join(' AND ')}) AS every) AS numbered
      WHERE position <= ${parameters.add(MOST_VALUES + 1, 'bigint')}
      GROUP BY ref`,
    parameters.values,
    place.place,
  );
  return new Map(rows.map(({ ref, found }) => [ref, found]));
}

function tooMany(target: string, { place, column }: LocatorQuery): TargetError {
  return new TargetBlockedError(
    `Target "${target}", place "${place}": a subject has more than ${MOST_VALUES} different values in "${column}"; choose a column with fewer to locate by.`,
    { target, place },
  );
}
