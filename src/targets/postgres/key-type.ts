/**
 * Column types that an identifier can be compared with, and how its text becomes a value of the type. The comparison is the
 * column's own, so that its index serves it; a text that is no value of the type, or another spelling of one (`042` for 42),
 * matches nothing (contract WF-14).
 */
import type { Column } from '../../schema/catalogue.js';
import type { ColumnRules } from '../tables/bind-places.js';
import { decimal, integer, type KeyType, text, uuid } from '../tables/key-type.js';

/** The key type of a column, or null where identifiers cannot be compared with it. */
function keyTypeOf(column: Column): KeyType | null {
  if (column.typeName === 'citext') return { sql: column.type, value: text };
  return column.typeSchema === 'pg_catalog' ? (types[column.typeName] ?? null) : null;
}

export const columnRules: ColumnRules = {
  defaultSchema: 'public',
  keyTypeOf,
  keyTypeNames: 'smallint, integer, bigint, numeric, uuid, text, varchar, char or citext',
  isDate: ({ typeName }) => ['date', 'timestamp', 'timestamptz'].includes(typeName),
};

const types: Readonly<Record<string, KeyType>> = {
  int2: { sql: 'smallint', value: integer(15n) },
  int4: { sql: 'integer', value: integer(31n) },
  int8: { sql: 'bigint', value: integer(63n) },
  numeric: { sql: 'numeric', value: decimal },
  uuid: { sql: 'uuid', value: uuid },
  text: { sql: 'text', value: text },
  varchar: { sql: 'text', value: text },
  bpchar: { sql: 'bpchar', value: padded },
};

/** char(n) ignores spaces at the end when it compares. */
function padded(identifier: string): string | null {
  return identifier.endsWith(' ') ? null : text(identifier);
}
