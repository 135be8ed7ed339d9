/** SQLite's own forms of what every statement is made of, and what its columns can be compared with. */
import type { Column, Relation } from '../../schema/catalogue.js';
import type { ColumnRules } from '../tables/bind-places.js';
import { type KeyType, text } from '../tables/key-type.js';
import { quoted, type SqlForms } from '../tables/store/store.js';

/** Any text may stand in a column, also in one of INTEGER affinity; the comparison is of texts, byte by byte. */
const keyType: KeyType = { sql: 'TEXT', value: text };

export const columnRules: ColumnRules = {
  defaultSchema: 'main',
  keyTypeOf: ({ typeName }) => (['INTEGER', 'TEXT', 'BLOB'].includes(typeName) ? keyType : null),
  keyTypeNames: 'of INTEGER or TEXT affinity, or of no type',
  isDate: () => true,
};

export const forms: SqlForms = {
  placeholder: (position) => `?${position}`,
  lists(lists, add) {
    const rows = lists[0]!.map((_, index) => lists.map((list) => list[index] ?? null));
    const columns = lists.map((_, index) => `e.value ->> ${index} AS c${index}`);
    return `SELECT ${columns.join(', ')} FROM json_each(${add(JSON.stringify(rows))}) AS e`;
  },
  table: (relation) => `main.${quoted(relation.name)}`,
  row: (relation, alias) => `${alias === '' ? '' : `${alias}.`}${rowName(relation)}`,
  // The column's own comparison serves its index; it may fold, and the second one does not.
  equalsKey: (found, { typeName }, value) =>
    typeName === 'BLOB' ? exactly(found, value) : `(${found} = ${value} AND ${exactly(found, value)})`,
  equalsColumn: (left, right) => `(${left} = ${right} COLLATE BINARY)`,
  differs: (found, _, value) => `(${found} IS NULL OR CAST(${found} AS TEXT) <> ${value} COLLATE BINARY)`,
  assigned: (_, value) => value,
  text: (expression) => `CAST(${expression} AS TEXT)`,
};

function exactly(found: string, value: string): string {
  return `CAST(${found} AS TEXT) = ${value} COLLATE BINARY`;
}

/** A column may have one of these names and hide what it means. */
const rowNames = ['rowid', '_rowid_', 'oid'];
const hidden = new WeakMap<Relation, string>();

/** Chooses what rows of the table are named by, or answers false where every name is taken. */
export function nameRows(relation: Relation, columns: readonly string[]): boolean {
  const taken = new Set(columns.map((name) => name.toLowerCase()));
  const free = rowNames.find((name) => !taken.has(name));
  if (free !== undefined) hidden.set(relation, free);
  return free !== undefined;
}

function rowName(relation: Relation): string {
  return hidden.get(relation) ?? 'rowid';
}

/** https://www.sqlite.org/datatype3.html#determination_of_column_affinity */
export function affinityOf(declared: string): Column['typeName'] {
  const type = declared.toUpperCase();
  if (type.includes('INT')) return 'INTEGER';
  if (/CHAR|CLOB|TEXT/.test(type)) return 'TEXT';
  if (type === '' || type.includes('BLOB')) return 'BLOB';
  return /REAL|FLOA|DOUB/.test(type) ? 'REAL' : 'NUMERIC';
}
