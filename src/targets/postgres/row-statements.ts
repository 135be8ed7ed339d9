/**
 * The statements of an erase: lock rows, act on the locked ones, count what is left of them.
 *
 * Rows are picked without an order and then locked in that of their key: ordering all rows of the subjects for each slice
 * would make the cost quadratic. Of the locked rows only those count that are still the version that was picked: what
 * somebody changed while its lock was waited for may have changed hands, and is left to the next transaction. The action
 * then needs nothing but the rows' names. Joining it to the subjects once more, or deleting in one statement with the lock,
 * was measured: the first takes five times as long, the second misses rows that a trigger of a child moved.
 */
import { type Catalogue, findColumn, type ForeignKey } from '../../schema/catalogue.js';
import { type BoundPlace, releases } from '../tables/bound-place.js';
import type { Query } from './connection.js';
import type { Exposure } from '../tables/plan.js';
import {
  assignmentsSql,
  columnSql,
  equals,
  type NamedRows,
  Parameters,
  quoted,
  type Scope,
  scopeOf,
  scopeOfNamed,
  tableSql,
  todoSql,
} from './sql.js';
import type { Subjects } from '../tables/subjects.js';

/** Locked rows. Their names travel as PostgreSQL wrote them, one text per column, and are never looked into. */
export interface Locked extends NamedRows {
  readonly rows: number;
  /** Whether the limit was reached, so that there may be more. */
  readonly full: boolean;
  /** Rows that were passed by because somebody changed them while their lock was waited for. */
  readonly skipped: number;
}

interface NameColumn {
  /** As SQL writes it. */
  readonly name: string;
  readonly type: string;
}

/** Number of rows by a subject's position. */
export type PerSubject = ReadonlyMap<number, number>;

export interface LockOptions {
  readonly limit: number;
  /** Only rows that are reached over these locked rows of an ancestor. */
  readonly within?: NamedRows;
  /** Only rows that nothing in these places, which reference each other in circles, references or is reached through. */
  readonly leavesOf?: readonly BoundPlace[];
  /** Whether the rows' physical place may change before they are acted on, so that their key has to name them. */
  readonly byKey: boolean;
}

export class RowStatements {
  readonly #query: Query;
  readonly #catalogue: Catalogue;
  readonly #subjects: Subjects;

  constructor(query: Query, catalogue: Catalogue, subjects: Subjects) {
    this.#query = query;
    this.#catalogue = catalogue;
    this.#subjects = subjects;
  }

  /** Locks rows that the place's action has still to be applied to, in the order of their key. */
  async lock(place: BoundPlace, options: LockOptions): Promise<Locked> {
    const parameters = new Parameters();
    const scope = scopeOf(place, 't', this.#subjects, parameters, options.within ? { above: options.within } : {});
    const where = [...scope.where, todoSql(place, 't', parameters)];
    if (options.leavesOf) where.push(...this.#unreferenced(place, options.leavesOf, parameters));
    const physical = physicalNames(place).map(({ name }) => name);
    const at = physical.map((name) => `at_${name}`).join(', ');
    const columns = options.byKey && place.identity ? keyNames(place) : physicalNames(place);
    const order = place.identity ? keyNames(place) : physicalNames(place);
    const [row] = await this.#query<{ found: number; picked: number; refs: string | null; names: (string | null)[] }>(
      `WITH found AS MATERIALIZED (
         SELECT ${physical.map((name) => `t.${name} AS at_${name}`).join(', ')}, ${scope.ref} AS ref
           FROM ${[`${tableSql(place.relation)} AS t`, ...scope.from].join(', ')}
          WHERE ${where.join(' AND ')}
          LIMIT ${parameters.add(options.limit, 'bigint')}
       ), picked AS MATERIALIZED (
         SELECT ${at}, min(ref) AS ref FROM found GROUP BY ${at}
       ), locked AS MATERIALIZED (
         SELECT ${physical.map((name) => `t.${name} AS at_${name}`).join(', ')},
                ${columns.map(({ name }, index) => `t.${name} AS n${index}`).join(', ')}
           FROM ${tableSql(place.relation)} AS t
          WHERE ${pickedSql(physical)}
          ORDER BY ${order.map(({ name }) => `t.${name}`).join(', ')}
            FOR UPDATE
       )
       SELECT (SELECT count(*)::float8 FROM found) AS found,
              (SELECT count(*)::float8 FROM picked) AS picked,
              array_agg(ref)::text AS refs,
              ARRAY[${columns.map((_, index) => `array_agg(n${index})::text`).join(', ')}] AS names
         FROM locked JOIN picked USING (${at})`,
      parameters.values,
      place.place,
    );
    const { found, picked, names, refs } = row!;
    const rows = positionsIn(refs ?? '{}').length;
    return {
      place,
      rows,
      full: found >= options.limit,
      skipped: picked - rows,
      columns,
      arrays: names.map((array) => array ?? '{}'),
      refs: refs ?? '{}',
    };
  }

  /**
   * Deletes or overwrites locked rows. Several places are one statement, whose foreign keys are checked at its end.
   *
   * @param most - only the first so many rows of each.
   * @returns how many rows of each are now as the action wants them, by the server's own account.
   */
  async act(locked: readonly Locked[], most?: number): Promise<ReadonlyMap<BoundPlace, number>> {
    const parameters = new Parameters();
    const parts = locked.map((rows, index) => `a${index} AS (${actionSql(rows, parameters, most)})`);
    const sums = locked.map((_, index) => `(SELECT count(*)::float8 FROM a${index} WHERE NOT undone)`);
    const [row] = await this.#query<{ readonly done: readonly number[] }>(
      `WITH ${parts.join(', ')} SELECT ARRAY[${sums.join(', ')}] AS done`,
      parameters.values,
      locked[0]?.place.place,
    );
    return new Map(locked.map(({ place }, index) => [place, row!.done[index]!]));
  }

  /**
   * Counts, of locked rows, those that the action has still to be applied to.
   *
   * @param most - only of the first so many.
   */
  async left(locked: Locked, most?: number): Promise<PerSubject> {
    const { place } = locked;
    const parameters = new Parameters();
    const scope = scopeOf(place, 't', this.#subjects, parameters);
    return this.#countDistinct(place, scope, [among('t', locked, parameters, most)], parameters);
  }

  /** Counts the rows of a child that are reached over locked rows and that its action has still to be applied to. */
  async leftBelow(place: BoundPlace, above: NamedRows): Promise<PerSubject> {
    const parameters = new Parameters();
    return this.#countDistinct(place, scopeOf(place, 't', this.#subjects, parameters, { above }), [], parameters);
  }

  #countDistinct(
    place: BoundPlace,
    scope: Scope,
    more: readonly string[],
    parameters: Parameters,
  ): Promise<PerSubject> {
    return this.#perSubject(
      `SELECT ${scope.ref}::int AS ref, count(DISTINCT (t.tableoid, t.ctid))::float8 AS rows
         FROM ${[`${tableSql(place.relation)} AS t`, ...scope.from].join(', ')}
        WHERE ${[...scope.where, ...more, todoSql(place, 't', parameters)].join(' AND ')}
        GROUP BY ${scope.ref}`,
      parameters,
      place,
    );
  }

  /** Counts what is still to do in a place, at most `limit` rows of all subjects. */
  async probe(place: BoundPlace, limit: number): Promise<number> {
    const parameters = new Parameters();
    const scope = scopeOf(place, 't', this.#subjects, parameters);
    const where = [...scope.where, todoSql(place, 't', parameters)];
    const [row] = await this.#query<{ readonly rows: number }>(
      `SELECT count(*)::float8 AS rows
         FROM (SELECT FROM ${[`${tableSql(place.relation)} AS t`, ...scope.from].join(', ')}
                WHERE ${where.join(' AND ')} LIMIT ${parameters.add(limit, 'bigint')}) AS found`,
      parameters.values,
      place.place,
    );
    return row!.rows;
  }

  /** Counts what is still to do in a place, by subject. */
  async todo(place: BoundPlace): Promise<PerSubject> {
    const parameters = new Parameters();
    const scope = scopeOf(place, 't', this.#subjects, parameters);
    return this.#perSubject(
      `SELECT ${scope.ref}::int AS ref, count(*)::float8 AS rows
         FROM ${[`${tableSql(place.relation)} AS t`, ...scope.from].join(', ')}
        WHERE ${[...scope.where, todoSql(place, 't', parameters)].join(' AND ')}
        GROUP BY ${scope.ref}`,
      parameters,
      place,
    );
  }

  /** Counts the rows that reference locked rows of `exposure.struck` and are not locked themselves, by the subject struck. */
  async referencing({ struck, key }: Exposure, locked: readonly Locked[]): Promise<PerSubject> {
    const parameters = new Parameters();
    const scope = scopeOfNamed(
      locked.find(({ place }) => place === struck)!,
      't',
      parameters,
    );
    const going = locked.filter(({ place }) => releases(place, key));
    const where = [
      ...scope.where,
      this.#references('c', 't', key),
      ...going.map((rows) => `NOT ${among('c', rows, parameters)}`),
    ];
    return this.#perSubject(
      `SELECT ${scope.ref}::int AS ref, count(*)::float8 AS rows
         FROM ${[`${tableSql(struck.relation)} AS t`, `${this.#childTable(key)} AS c`, ...scope.from].join(', ')}
        WHERE ${where.join(' AND ')}
        GROUP BY ${scope.ref}`,
      parameters,
      struck,
    );
  }

  /**
   * Counts the rows that reference any row of `exposure.struck` that will be struck, and that no place takes out of the way
   * for a subject of this batch.
   */
  async inTheWay({ struck, key, releasing }: Exposure): Promise<PerSubject> {
    const parameters = new Parameters();
    const scope = scopeOf(struck, 't', this.#subjects, parameters);
    const released = releasing.map((place, index) => {
      const own = scopeOf(place, 'c', this.#subjects, parameters, { prefix: `r${index}` });
      return `NOT EXISTS (SELECT 1 FROM ${own.from.join(', ')} WHERE ${own.where.join(' AND ')})`;
    });
    const where = [...scope.where, todoSql(struck, 't', parameters), this.#references('c', 't', key), ...released];
    return this.#perSubject(
      `SELECT ${scope.ref}::int AS ref, count(*)::float8 AS rows
         FROM ${[`${tableSql(struck.relation)} AS t`, `${this.#childTable(key)} AS c`, ...scope.from].join(', ')}
        WHERE ${where.join(' AND ')}
        GROUP BY ${scope.ref}`,
      parameters,
      struck,
    );
  }

  async #perSubject(text: string, parameters: Parameters, place: BoundPlace): Promise<PerSubject> {
    const rows = await this.#query<{ ref: number; rows: number }>(text, parameters.values, place.place);
    return new Map(rows.map(({ ref, rows: count }) => [ref, count]));
  }

  #references(child: string, parent: string, key: ForeignKey): string {
    const relation = this.#catalogue.relations.get(key.parent)!;
    return key.childColumns
      .map((name, index) => {
        const column = findColumn(this.#catalogue, relation, key.parentColumns[index]!)!;
        return `${child}.${quoted(name)} ${equals(column)} ${columnSql(parent, column)}`;
      })
      .join(' AND ');
  }

  /** A foreign key may stand on one partition alone; it says nothing of the rows of the others. */
  #childTable(key: ForeignKey): string {
    return tableSql(this.#catalogue.relations.get(key.childPart)!);
  }

  #unreferenced(place: BoundPlace, circle: readonly BoundPlace[], parameters: Parameters): readonly string[] {
    const tables = new Set(circle.map(({ relation }) => relation.oid));
    const keys = this.#catalogue.foreignKeys.filter(
      (key) => key.parent === place.relation.oid && tables.has(key.child),
    );
    const overKeys = keys.map((key) => {
      const other = key.child === key.parent ? ' AND (c.tableoid, c.ctid) <> (t.tableoid, t.ctid)' : '';
      return `SELECT 1 FROM ${this.#childTable(key)} AS c WHERE ${this.#references('c', 't', key)}${other}`;
    });
    const overLinks = circle.flatMap((child) => {
      if (child.link.by !== 'parent' || child.link.parent !== place) return [];
      const on = child.link.on.map(
        ({ column, parentColumn }) => `${columnSql('c', column)} ${equals(column)} ${columnSql('t', parentColumn)}`,
      );
      const other = child.relation.oid === place.relation.oid ? ['(c.tableoid, c.ctid) <> (t.tableoid, t.ctid)'] : [];
      const where = [...on, todoSql(child, 'c', parameters), ...other];
      return [`SELECT 1 FROM ${tableSql(child.relation)} AS c WHERE ${where.join(' AND ')}`];
    });
    return [...overKeys, ...overLinks].map((subquery) => `NOT EXISTS (${subquery})`);
  }
}

function keyNames(place: BoundPlace): readonly NameColumn[] {
  return place.identity!.map((column) => ({ name: quoted(column.name), type: column.type }));
}

function physicalNames(place: BoundPlace): readonly NameColumn[] {
  const ctid = { name: 'ctid', type: 'tid' };
  return place.relation.kind === 'partitioned table' ? [{ name: 'tableoid', type: 'oid' }, ctid] : [ctid];
}

/** A list of physical places is found without reading anything else; with partitions it takes a join. */
function pickedSql(physical: readonly string[]): string {
  if (physical.length === 1) return 't.ctid = ANY (ARRAY(SELECT at_ctid FROM picked))';
  return '(t.tableoid, t.ctid) IN (SELECT at_tableoid, at_ctid FROM picked)';
}

function actionSql(rows: Locked, parameters: Parameters, most: number | undefined): string {
  const { place } = rows;
  const table = `${tableSql(place.relation)} AS t`;
  const where = among('t', rows, parameters, most);
  if (place.action === 'delete') return `DELETE FROM ${table} WHERE ${where} RETURNING false AS undone`;
  const undone = todoSql(place, 't', parameters);
  return `UPDATE ${table} SET ${assignmentsSql(place, parameters)} WHERE ${where} RETURNING ${undone} AS undone`;
}

/**
 * How many rows each subject has among the first of some.
 *
 * @param most - only the first so many; all of them by default.
 */
export function perSubjectOf({ refs }: NamedRows, most?: number): PerSubject {
  const counts = new Map<number, number>();
  for (const position of positionsIn(refs).slice(0, most)) counts.set(position, (counts.get(position) ?? 0) + 1);
  return counts;
}

/** An array of numbers as PostgreSQL writes it: `{1,2,2}`. */
function positionsIn(array: string): readonly number[] {
  return array === '{}' ? [] : array.slice(1, -1).split(',').map(Number);
}

/** A sub-select keeps the planner from reading the whole table for a long list, and from looking at every name while planning. */
function among(row: string, { columns, arrays }: NamedRows, parameters: Parameters, most?: number): string {
  const values = columns.map(({ type }, index) => parameters.add(arrays[index], `${type}[]`));
  const names = columns.map(({ name }) => `${row}.${name}`);
  const limit = most === undefined ? '' : ` LIMIT ${parameters.add(most, 'bigint')}`;
  if (names.length === 1) return `${names[0]} = ANY (ARRAY(SELECT unnest(${values[0]})${limit}))`;
  return `(${names.join(', ')}) IN (SELECT * FROM unnest(${values.join(', ')})${limit})`;
}
