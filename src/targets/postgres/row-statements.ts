/**
 * The statements of an erase: lock rows, act on the locked ones, count what is left of them.
 *
 * Locking and acting are two statements on purpose. The second has a snapshot of its own, so that a row for which the first
 * had to wait is seen as it is now, and the match is checked again: a row that changed hands meanwhile is left alone.
 * Rows are picked without an order and then locked in that of their key: ordering all rows of the subjects for each slice
 * would make the cost quadratic.
 */
import { type Catalogue, findColumn, type ForeignKey } from '../../schema/catalogue.js';
import { type BoundPlace, releases } from './bound-place.js';
import type { Query } from './connection.js';
import type { Exposure } from './plan.js';
import {
  assignmentsSql,
  columnSql,
  equals,
  Parameters,
  quoted,
  scopeOf,
  type Subjects,
  tableSql,
  todoSql,
} from './sql.js';

/** Locked rows. Their names travel as PostgreSQL wrote them, one text per column, and are never looked into. */
export interface Locked {
  readonly place: BoundPlace;
  readonly rows: number;
  /** Rows that were passed by because somebody changed them while their lock was waited for. */
  readonly skipped: number;
  /** What names rows: key columns, or their physical place where that cannot change or there is nothing else. */
  readonly columns: readonly NameColumn[];
  readonly arrays: readonly string[];
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
  readonly within?: Locked;
  /** Only rows that nothing in these places, which reference each other in circles, references or is reached through. */
  readonly leavesOf?: readonly BoundPlace[];
  /** Whether the rows' physical place may change before they are acted on, so that their key has to name them. */
  readonly byKey: boolean;
}

/** What an action reported. */
export interface Acted {
  /** Rows that are as the action wants them, by subject. */
  readonly done: PerSubject;
  /** Rows that were written and still are not: a trigger put the values back. */
  readonly undone: PerSubject;
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
    const scope = scopeOf(place, 't', this.#subjects, parameters);
    const where = [...scope.where, todoSql(place, 't', parameters)];
    if (options.within) where.push(among(scope.aliases.get(options.within.place)!, options.within, parameters));
    if (options.leavesOf) where.push(...this.#unreferenced(place, options.leavesOf, parameters));
    const physical = physicalNames(place).map(({ name }) => name);
    const columns = options.byKey && place.identity ? keyNames(place) : physicalNames(place);
    const order = place.identity ? keyNames(place) : physicalNames(place);
    const [row] = await this.#query<{ rows: number; picked: number; names: readonly (string | null)[] }>(
      `WITH picked AS MATERIALIZED (
         SELECT ${physical.map((name) => `t.${name} AS at_${name}`).join(', ')}
           FROM ${[`${tableSql(place.relation)} AS t`, ...scope.from].join(', ')}
          WHERE ${where.join(' AND ')}
          LIMIT ${parameters.add(options.limit, 'bigint')}
       ), locked AS (
         SELECT ${columns.map(({ name }, index) => `t.${name} AS n${index}`).join(', ')}
           FROM ${tableSql(place.relation)} AS t
          WHERE ${pickedSql(physical)}
          ORDER BY ${order.map(({ name }) => `t.${name}`).join(', ')}
            FOR UPDATE
       )
       SELECT (SELECT count(DISTINCT (${physical.map((name) => `at_${name}`).join(', ')}))::float8 FROM picked) AS picked,
              count(*)::float8 AS rows,
              ARRAY[${columns.map((_, index) => `array_agg(n${index})::text`).join(', ')}] AS names
         FROM locked`,
      parameters.values,
      place.place,
    );
    const { rows, picked, names } = row!;
    return { place, rows, skipped: picked - rows, columns, arrays: names.map((array) => array ?? '{}') };
  }

  /**
   * Deletes or overwrites locked rows that still are the subjects'. Several places are one statement, whose foreign keys
   * are checked at its end.
   *
   * @param most - only the first so many rows of each.
   */
  async act(locked: readonly Locked[], most?: number): Promise<ReadonlyMap<BoundPlace, Acted>> {
    const parameters = new Parameters();
    const parts = locked.map((rows, index) => `a${index} AS (${this.#actionSql(rows, parameters, most)})`);
    const sums = locked.map(
      (_, index) =>
        `SELECT ${index} AS part, ref::int AS ref, undone, count(*)::float8 AS rows FROM a${index} GROUP BY ref, undone`,
    );
    const found = await this.#query<{ part: number; ref: number; undone: boolean; rows: number }>(
      `WITH ${parts.join(', ')} ${sums.join(' UNION ALL ')}`,
      parameters.values,
      locked[0]?.place.place,
    );
    return new Map(
      locked.map(({ place }, index) => {
        const own = found.filter(({ part }) => part === index);
        const those = (undone: boolean): PerSubject =>
          new Map(own.filter((row) => row.undone === undone).map(({ ref, rows }) => [ref, rows]));
        return [place, { done: those(false), undone: those(true) }];
      }),
    );
  }

  #actionSql(rows: Locked, parameters: Parameters, most: number | undefined): string {
    const { place } = rows;
    const scope = scopeOf(place, 't', this.#subjects, parameters);
    const where = [...scope.where, among('t', rows, parameters, most)].join(' AND ');
    if (place.action === 'delete') {
      return `DELETE FROM ${tableSql(place.relation)} AS t USING ${scope.from.join(', ')} WHERE ${where}
              RETURNING ${scope.ref} AS ref, false AS undone`;
    }
    const todo = todoSql(place, 't', parameters);
    return `UPDATE ${tableSql(place.relation)} AS t SET ${assignmentsSql(place, parameters)} FROM ${scope.from.join(', ')}
             WHERE ${where} AND ${todo} RETURNING ${scope.ref} AS ref, ${todo} AS undone`;
  }

  /**
   * Counts, of locked rows, those that the action has still to be applied to; of a child, those below the locked rows.
   *
   * @param most - only of the first so many locked rows.
   */
  async left(place: BoundPlace, locked: Locked, most?: number): Promise<PerSubject> {
    const parameters = new Parameters();
    const scope = scopeOf(place, 't', this.#subjects, parameters);
    const row = scope.aliases.get(locked.place)!;
    const where = [...scope.where, among(row, locked, parameters, most), todoSql(place, 't', parameters)];
    return this.#perSubject(
      `SELECT ${scope.ref}::int AS ref, count(DISTINCT (t.tableoid, t.ctid))::float8 AS rows
         FROM ${[`${tableSql(place.relation)} AS t`, ...scope.from].join(', ')}
        WHERE ${where.join(' AND ')}
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
    const scope = scopeOf(struck, 't', this.#subjects, parameters);
    const rows = locked.find(({ place }) => place === struck)!;
    const going = locked.filter(({ place }) => releases(place, key));
    const where = [
      ...scope.where,
      among('t', rows, parameters),
      this.#references('c', 't', key),
      ...going.map((some) => `NOT ${among('c', some, parameters)}`),
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
      const own = scopeOf(place, 'c', this.#subjects, parameters, `r${index}`);
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

function among(row: string, { columns, arrays }: Locked, parameters: Parameters, most?: number): string {
  const values = columns.map(({ type }, index) => {
    const array = parameters.add(arrays[index], `${type}[]`);
    return most === undefined ? array : `(${array})[1:${parameters.add(most, 'int')}]`;
  });
  const names = columns.map(({ name }) => `${row}.${name}`);
  if (names.length === 1) return `${names[0]} = ANY (${values[0]})`;
  return `(${names.join(', ')}) IN (SELECT * FROM unnest(${values.join(', ')}))`;
}
