/** The statements on rows. Their text depends on the place alone; many subjects are lists, and one statement. */
import type { SubjectRef } from '../../target.js';
import type { BoundPlace, SetColumn } from '../bound-place.js';
import type { Exposure } from '../plan.js';
import type { Subjects } from '../subjects.js';
import { quoted, type Session, type SqlForms, type Value } from './store.js';

/** A row with the subject that it belongs to. */
export interface FoundRow {
  readonly ref: SubjectRef;
  readonly row: string;
}

class Parameters {
  readonly values: Value[] = [];
  readonly #forms: SqlForms;
  constructor(forms: SqlForms) {
    this.#forms = forms;
  }
  readonly add = (value: Value): string => {
    this.values.push(value);
    return this.#forms.placeholder(this.values.length);
  };
}

export class Statements {
  readonly #session: Session;
  readonly #forms: SqlForms;

  constructor(session: Session, forms: SqlForms) {
    this.#session = session;
    this.#forms = forms;
  }

  /** Counts a place for each subject that has rows there, by position from 1. */
  async count(place: BoundPlace, subjects: Subjects): Promise<ReadonlyMap<number, CountedRows>> {
    const parameters = new Parameters(this.#forms);
    const since = place.keep ? this.#since(place) : 'NULL';
    const rows = await this.#session.query(
      `SELECT ref, sum(todo) AS todo, sum(1 - todo) AS kept,
              sum(CASE WHEN todo = 0 AND since IS NULL THEN 1 ELSE 0 END) AS endless,
              max(CASE WHEN todo = 0 THEN since END) AS since
         FROM (SELECT ref, found, max(todo) AS todo, max(since) AS since
                 FROM (${this.#rows(place, subjects, parameters, since)}) AS matching
                GROUP BY ref, found) AS counted
        GROUP BY ref`,
      parameters.values,
    );
    return new Map(
      rows.map(({ ref, todo, kept, endless, since: last }) => [
        Number(ref),
        {
          matched: Number(todo),
          kept: Number(kept),
          since: Number(endless) === 0 && typeof last === 'string' ? last : null,
        },
      ]),
    );
  }

  /** Rows of anybody's whose parent does not exist (contract WF-16). */
  async parentless({ link, relation }: BoundPlace): Promise<number | null> {
    if (link.by !== 'parent') return null;
    const present = link.on.map(({ column }) => `t.${quoted(column.name)} IS NOT NULL`);
    const same = link.on.map(({ column, parentColumn }) =>
      this.#forms.equalsColumn(`t.${quoted(column.name)}`, `p.${quoted(parentColumn.name)}`, column),
    );
    const [row] = await this.#session.query(
      `SELECT count(*) AS parentless FROM ${this.#forms.table(relation)} AS t
        WHERE ${present.join(' AND ')}
          AND NOT EXISTS (SELECT 1 FROM ${this.#forms.table(link.parent.relation)} AS p WHERE ${same.join(' AND ')})`,
      [],
    );
    return Number(row?.['parentless']);
  }

  /** At most `limit` rows to which the action has still to be applied. */
  async find(place: BoundPlace, subjects: Subjects, limit: number): Promise<readonly FoundRow[]> {
    const parameters = new Parameters(this.#forms);
    const rows = await this.#session.query(
      `SELECT min(ref) AS ref, found FROM (${this.#rows(place, subjects, parameters, 'NULL')}) AS matching
        WHERE todo = 1 GROUP BY found LIMIT ${parameters.add(limit)}`,
      parameters.values,
    );
    return rows.map(({ ref, found }) => ({ ref: subjects.at(Number(ref)), row: String(found) }));
  }

  /** Deletes or overwrites these rows. What the store reports of it is not believed. */
  async act(place: BoundPlace, rows: readonly string[]): Promise<void> {
    const parameters = new Parameters(this.#forms);
    const table = this.#forms.table(place.relation);
    const set = place.set.map((one) => `${quoted(one.column.name)} = ${this.#assigned(one, parameters)}`);
    const change = place.action === 'delete' ? `DELETE FROM ${table}` : `UPDATE ${table} SET ${set.join(', ')}`;
    await this.#session.query(
      `${change} WHERE ${this.#among(this.#forms.row(place.relation, ''), rows, parameters)}`,
      parameters.values,
    );
  }

  /** Those of the rows to which the action was not applied. */
  async left(place: BoundPlace, rows: readonly string[]): Promise<ReadonlySet<string>> {
    const parameters = new Parameters(this.#forms);
    const row = this.#forms.row(place.relation, 't');
    const found = await this.#session.query(
      `SELECT ${row} AS found FROM ${this.#forms.table(place.relation)} AS t
        WHERE ${this.#todo(place, parameters)} AND ${this.#among(row, rows, parameters)}`,
      parameters.values,
    );
    return new Set(found.map(({ found: name }) => String(name)));
  }

  /** Those of the rows that somebody else's row references. */
  async referenced({ struck, key }: Exposure, child: string, rows: readonly string[]): Promise<ReadonlySet<string>> {
    const parameters = new Parameters(this.#forms);
    const row = this.#forms.row(struck.relation, 't');
    const same = key.childColumns.map((name, index) => `c.${quoted(name)} = t.${quoted(key.parentColumns[index]!)}`);
    const found = await this.#session.query(
      `SELECT DISTINCT ${row} AS found FROM ${this.#forms.table(struck.relation)} AS t
         JOIN ${child} AS c ON ${same.join(' AND ')}
        WHERE ${this.#among(row, rows, parameters)}`,
      parameters.values,
    );
    return new Set(found.map(({ found: name }) => String(name)));
  }

  /** Distinct values of a column as text, by position; `limit` over all subjects. */
  async values(
    place: BoundPlace,
    column: string,
    subjects: Subjects,
    limit: number,
  ): Promise<readonly { readonly ref: SubjectRef; readonly value: string }[]> {
    const parameters = new Parameters(this.#forms);
    const value = this.#forms.text(`t.${quoted(column)}`);
    const rows = await this.#session.query(
      `SELECT DISTINCT ref, since AS value FROM (${this.#rows(place, subjects, parameters, value)}) AS matching
        WHERE since IS NOT NULL ORDER BY ref, since LIMIT ${parameters.add(limit)}`,
      parameters.values,
    );
    return rows.map((row) => ({ ref: subjects.at(Number(row['ref'])), value: String(row['value']) }));
  }

  #rows(place: BoundPlace, subjects: Subjects, parameters: Parameters, since: string): string {
    const { from, where } = this.#scope(place, 't', subjects, parameters);
    return `SELECT CAST(s.c0 AS BIGINT) AS ref, ${this.#forms.row(place.relation, 't')} AS found,
                   CASE WHEN ${this.#todo(place, parameters)} THEN 1 ELSE 0 END AS todo, ${since} AS since
              FROM ${[`${this.#forms.table(place.relation)} AS t`, ...from].join(', ')}
             WHERE ${where.join(' AND ')}`;
  }

  /** The chain from `row`, an alias of the place's table, up to the subjects. */
  #scope(place: BoundPlace, row: string, subjects: Subjects, parameters: Parameters): Scope {
    const { link } = place;
    if (link.by === 'key') {
      const lists = link.columns.map(({ identifier, type }) => subjects.values(identifier).map(type.value));
      const positions = subjects.refs.map((_, index) => String(index + 1));
      return {
        from: [`(${this.#forms.lists([positions, ...lists], parameters.add)}) AS s`],
        where: link.columns.map(({ column }, index) =>
          this.#forms.equalsKey(`${row}.${quoted(column.name)}`, column, `s.c${index + 1}`),
        ),
      };
    }
    const parent = `${row}p`;
    const up = this.#scope(link.parent, parent, subjects, parameters);
    const same = link.on.map(({ column, parentColumn }) =>
      this.#forms.equalsColumn(`${row}.${quoted(column.name)}`, `${parent}.${quoted(parentColumn.name)}`, column),
    );
    return {
      from: [...up.from, `${this.#forms.table(link.parent.relation)} AS ${parent}`],
      where: [...up.where, ...same],
    };
  }

  #since({ keep, link }: BoundPlace): string {
    const owner = link.by === 'parent' ? 'tp' : 't';
    return this.#forms.text(`${owner}.${quoted(keep!.column.name)}`);
  }

  #todo(place: BoundPlace, parameters: Parameters): string {
    if (place.action === 'delete') return '1 = 1';
    if (place.action === 'retain') return '1 = 0';
    const differing = place.set.map(({ column, value }) => {
      const found = `t.${quoted(column.name)}`;
      return value === null ? `${found} IS NOT NULL` : this.#forms.differs(found, column, parameters.add(value));
    });
    return `(${differing.join(' OR ')})`;
  }

  #assigned({ column, value }: SetColumn, parameters: Parameters): string {
    return value === null ? 'NULL' : this.#forms.assigned(column, parameters.add(value));
  }

  #among(row: string, rows: readonly string[], parameters: Parameters): string {
    return `${row} IN (SELECT CAST(r.c0 AS BIGINT) FROM (${this.#forms.lists([rows], parameters.add)}) AS r)`;
  }
}

interface Scope {
  readonly from: readonly string[];
  readonly where: readonly string[];
}

export interface CountedRows {
  readonly matched: number;
  readonly kept: number;
  /** The latest beginning of the time that rows are kept; null where one of them has none. */
  readonly since: string | null;
}
