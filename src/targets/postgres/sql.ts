/**
 * The pieces that every statement of this target is made of. A statement's text depends on the place alone: subjects, rows
 * and limits are parameters, and many subjects are arrays, so that ten thousand of them are still one statement.
 */
import type { Column, Relation } from '../../schema/catalogue.js';
import type { Subjects } from '../tables/subjects.js';
import type { BoundPlace, SetColumn } from '../tables/bound-place.js';

/** Values by their number in the text. The same name is one parameter, however often it is asked for. */
export class Parameters {
  readonly values: unknown[] = [];
  readonly #named = new Map<string, string>();

  /** Adds a value and answers its placeholder with a cast. */
  add(value: unknown, type: string): string {
    this.values.push(value);
    return `$${this.values.length}::${type}`;
  }

  once(name: string, value: () => unknown, type: string): string {
    const placeholder = this.#named.get(name) ?? this.add(value(), type);
    this.#named.set(name, placeholder);
    return placeholder;
  }
}

/** Where the rows of a place come from besides its own table, and what joins them to it. */
export interface Scope {
  readonly from: readonly string[];
  /** All conditions, `own` among them. */
  readonly where: readonly string[];
  /** Conditions on the row alone: each of its columns has one of the values that are looked for. */
  readonly own: readonly string[];
  /** What each column of the row's link has to equal. */
  readonly joins: readonly { readonly column: Column; readonly to: string }[];
  /** The subject's position. */
  readonly ref: string;
  /** The alias of each place in the chain. */
  readonly aliases: ReadonlyMap<BoundPlace, string>;
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A table in FROM, DELETE or UPDATE: without what inherits from it, but with its partitions. */
export function tableSql(relation: Relation): string {
  const name = `${quoted(relation.schema)}.${quoted(relation.name)}`;
  return relation.kind === 'partitioned table' ? name : `ONLY ${name}`;
}

export function columnSql(alias: string, column: Pick<Column, 'name'>): string {
  return `${alias}.${quoted(column.name)}`;
}

/** The equality of a type that does not come with the server may lie outside of the search path. */
export function equals(column: Column): string {
  return column.typeSchema === 'pg_catalog' ? '=' : `OPERATOR(${quoted(column.typeSchema)}.=)`;
}

/** Rows that are known by name, each with the position of its subject, from which a chain can start. */
export interface NamedRows {
  readonly place: BoundPlace;
  /** Key columns, or `tableoid` and `ctid`. */
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** One array for each column, as PostgreSQL writes it. */
  readonly arrays: readonly string[];
  /** The array of positions. */
  readonly refs: string;
}

interface ScopeOptions {
  /** Of the aliases, where one statement has two chains. */
  readonly prefix?: string;
  /** The chain starts at these rows of an ancestor, and not at the subjects. */
  readonly above?: NamedRows;
}

/**
 * The chain from `row`, an alias of the place's table, up to the subjects or to rows of an ancestor.
 *
 * The conditions with ANY say nothing new. They are for the planner, which knows nothing of the values in an array that is
 * joined, and would rather hash a whole table than look up some thousand rows of it.
 */
export function scopeOf(
  place: BoundPlace,
  row: string,
  subjects: Subjects,
  parameters: Parameters,
  options: ScopeOptions = {},
): Scope {
  const { link } = place;
  const { prefix = '', above } = options;
  if (link.by === 'key') {
    const arrays = link.columns.map(({ identifier, type }) =>
      parameters.once(`${identifier}:${type.sql}`, () => subjects.values(identifier).map(type.value), `${type.sql}[]`),
    );
    const names = link.columns.map((_, index) => `k${index}`);
    const from = [`unnest(${arrays.join(', ')}) WITH ORDINALITY AS ${prefix}s (${names.join(', ')}, ref)`];
    const joins = link.columns.map(({ column }, index) => ({ column, to: `${prefix}s.k${index}` }));
    return linked(place, row, { from, joins, lists: arrays, ref: `${prefix}s.ref` });
  }
  // The parent's key is what its rows are named by, so that its table need not be read.
  if (above && isNamedBy(place, above)) {
    const positions = link.on.map(({ parentColumn }) => namePosition(parentColumn, above));
    const joins = link.on.map(({ column }, index) => ({ column, to: `a.n${positions[index]}` }));
    const lists = positions.map((position) => arrayOf(above, position, parameters));
    return linked(place, row, { from: [namedSql(above, parameters)], joins, lists, ref: 'a.ref' });
  }
  const parent = `${prefix}p${depth(place)}`;
  const up =
    above?.place === link.parent
      ? scopeOfNamed(above, parent, parameters)
      : scopeOf(link.parent, parent, subjects, parameters, options);
  const joins = link.on.map(({ column, parentColumn }) => ({ column, to: columnSql(parent, parentColumn) }));
  const from = [...up.from, `${tableSql(link.parent.relation)} AS ${parent}`];
  const scope = linked(place, row, { from, joins, lists: [], ref: up.ref });
  return { ...scope, where: [...up.where, ...scope.where], aliases: new Map([...up.aliases, ...scope.aliases]) };
}

function linked(
  place: BoundPlace,
  row: string,
  parts: Pick<Scope, 'from' | 'joins' | 'ref'> & { readonly lists: readonly string[] },
): Scope {
  const { from, joins, ref } = parts;
  const own = parts.lists.map((list, index) => {
    const { column } = joins[index]!;
    return `${columnSql(row, column)} ${equals(column)} ANY (${list})`;
  });
  const where = joins.map(({ column, to }) => `${columnSql(row, column)} ${equals(column)} ${to}`);
  return { from, joins, ref, own, where: [...where, ...own], aliases: new Map([[place, row]]) };
}

/** Rows by their names alone: `row` is each of them, with its subject. */
export function scopeOfNamed(rows: NamedRows, row: string, parameters: Parameters): Scope {
  const own = rows.columns.map(({ name }, index) => `${row}.${name} = ANY (${arrayOf(rows, index, parameters)})`);
  return {
    from: [namedSql(rows, parameters)],
    where: [...rows.columns.map(({ name }, index) => `${row}.${name} = a.n${index}`), ...own],
    own,
    joins: [],
    ref: 'a.ref',
    aliases: new Map([[rows.place, row]]),
  };
}

/** Whether the rows of a child can be found by the names of their parent rows alone. */
export function isNamedBy({ link }: BoundPlace, above: NamedRows): boolean {
  if (link.by !== 'parent' || link.parent !== above.place) return false;
  return link.on.every(({ parentColumn }) => namePosition(parentColumn, above) >= 0);
}

function namePosition(column: Column, { columns }: NamedRows): number {
  return columns.findIndex(({ name }) => name === quoted(column.name));
}

function namedSql(rows: NamedRows, parameters: Parameters): string {
  const values = rows.columns.map((_, index) => arrayOf(rows, index, parameters));
  const names = rows.columns.map((_, index) => `n${index}`);
  const refs = parameters.once('refs', () => rows.refs, 'int[]');
  return `unnest(${[...values, refs].join(', ')}) AS a (${[...names, 'ref'].join(', ')})`;
}

function arrayOf(rows: NamedRows, index: number, parameters: Parameters): string {
  return parameters.once(`name ${index}`, () => rows.arrays[index], `${rows.columns[index]!.type}[]`);
}

function depth(place: BoundPlace): number {
  return place.link.by === 'parent' ? 1 + depth(place.link.parent) : 0;
}

/** Whether the action has still to be applied to the row. Never NULL. */
export function todoSql(place: BoundPlace, row: string, parameters: Parameters): string {
  if (place.action === 'delete') return 'true';
  if (place.action === 'retain') return 'false';
  return `(${place.set.map((set) => differs(set, row, parameters)).join(' OR ')})`;
}

/**
 * Whether a column differs from the value that it is set to. Strings are compared as they are written, whatever the
 * collation or citext makes of them; json has no equality of its own.
 */
function differs({ column, value }: SetColumn, row: string, parameters: Parameters): string {
  const found = columnSql(row, column);
  if (value === null) return `${found} IS DISTINCT FROM NULL`;
  const wanted = parameters.once(`set:${column.name}:${value}`, () => value, column.type);
  if (column.typeName === 'json') return `${found}::jsonb IS DISTINCT FROM (${wanted})::jsonb`;
  if (column.category === 'S') return `${found}::text COLLATE "C" IS DISTINCT FROM (${wanted})::text COLLATE "C"`;
  return `${found} IS DISTINCT FROM ${wanted}`;
}

/** The assignments of an anonymization. */
export function assignmentsSql(place: BoundPlace, parameters: Parameters): string {
  return place.set
    .map(({ column, value }) => {
      const wanted = value === null ? 'NULL' : parameters.once(`set:${column.name}:${value}`, () => value, column.type);
      return `${quoted(column.name)} = ${wanted}`;
    })
    .join(', ');
}
