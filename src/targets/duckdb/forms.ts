/** DuckDB's own forms of what every statement is made of, and what its columns can be compared with. */
import type { Column } from '../../schema/catalogue.js';
import type { ColumnRules } from '../tables/bind-places.js';
import { integer, type KeyType, text, uuid } from '../tables/key-type.js';
import { quoted, type SqlForms } from '../tables/store/store.js';

const types: Readonly<Record<string, KeyType>> = {
  SMALLINT: { sql: 'SMALLINT', value: integer(15n) },
  INTEGER: { sql: 'INTEGER', value: integer(31n) },
  BIGINT: { sql: 'BIGINT', value: integer(63n) },
  HUGEINT: { sql: 'HUGEINT', value: integer(127n) },
  VARCHAR: { sql: 'VARCHAR', value: text },
  UUID: { sql: 'UUID', value: uuid },
};

export const columnRules: ColumnRules = {
  defaultSchema: 'main',
  keyTypeOf: ({ typeName }) => types[typeName] ?? null,
  keyTypeNames: 'SMALLINT, INTEGER, BIGINT, HUGEINT, VARCHAR or UUID',
  isDate: ({ typeName }) => /^(DATE|TIMESTAMP.*)$/.test(typeName),
};

export const forms: SqlForms = {
  placeholder: (position) => `$${position}`,
  lists(lists, add) {
    const columns = lists.map((list, index) => `unnest(${add(list)}::VARCHAR[]) AS c${index}`);
    return `SELECT ${columns.join(', ')}`;
  },
  table: ({ schema, name }) => `${quoted(schema)}.${quoted(name)}`,
  row: (_, alias) => (alias === '' ? 'rowid' : `${alias}.rowid`),
  equalsKey: (found, column, value) => equals(found, `CAST(${value} AS ${types[column.typeName]!.sql})`, column),
  equalsColumn: equals,
  differs: (found, column, value) =>
    `${written(found, column)} IS DISTINCT FROM ${written(`CAST(${value} AS ${column.type})`, column)}`,
  assigned: (column, value) => `CAST(${value} AS ${column.type})`,
  text: (expression) => `CAST(${expression} AS VARCHAR)`,
};

/** A collation may fold what it compares; the bytes do not. The first comparison is what a join is made by. */
function equals(left: string, right: string, column: Column): string {
  const same = `${left} = ${right}`;
  return column.typeName === 'VARCHAR' ? `(${same} AND encode(${left}) = encode(${right}))` : same;
}

function written(expression: string, { typeName }: Column): string {
  return typeName === 'VARCHAR' ? `encode(${expression})` : expression;
}
