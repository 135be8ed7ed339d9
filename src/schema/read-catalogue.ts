/** Reads a PostgreSQL catalogue in a fixed number of statements, through whatever connection the caller has. */
import type { Catalogue, Column, ForeignKey, Index, Relation, RelationKind, ReferentialAction } from './catalogue.js';

/** Runs one statement with parameters `$1`, `$2` … and answers its rows. */
export type CatalogueQuery = (text: string, parameters: readonly unknown[]) => Promise<readonly object[]>;

/** A table by its exact name. */
export interface TableName {
  readonly schema: string;
  readonly table: string;
}

const kinds: Readonly<Record<string, RelationKind>> = {
  r: 'table',
  p: 'partitioned table',
  v: 'view',
  m: 'materialized view',
  f: 'foreign table',
};

const actions: Readonly<Record<string, ReferentialAction>> = {
  a: 'NO ACTION',
  r: 'RESTRICT',
  c: 'CASCADE',
  n: 'SET NULL',
  d: 'SET DEFAULT',
};

/**
 * Reads the catalogue for `tables` and what references them. Tables that do not exist are left out; whoever asked finds
 * them missing. PostgreSQL 12 or later. Run it in one transaction with a snapshot, so that its parts fit together.
 */
export async function readCatalogue(query: CatalogueQuery, tables: readonly TableName[]): Promise<Catalogue> {
  const [server] = (await query(serverSql, [])) as ServerRow[];
  const relations = toRelations((await query(relationsSql, [])) as RelationRow[]);
  const keys = (await query(foreignKeysSql, [])) as ForeignKeyRow[];
  const foreignKeys = keys.map((row) => toForeignKey(row, relations));

  const asked = new Set<number>();
  for (const relation of relations.values()) {
    if (tables.some(({ schema, table }) => schema === relation.schema && table === relation.name))
      asked.add(relation.oid);
  }
  const near = new Set([...asked, ...foreignKeys.filter((key) => asked.has(key.parent)).map((key) => key.child)]);
  const columns = (await query(columnsSql, [[...near]])) as Column[];
  const indexes = (await query(indexesSql, [[...near]])) as Index[];
  const names = (await query(constraintNamesSql, [])) as { readonly name: string }[];
  return {
    server: server ?? { version: 0, encoding: '', replicationRole: '' },
    relations,
    columns: byRelation(columns),
    foreignKeys,
    indexes,
    constraintNames: new Set(names.map(({ name }) => name)),
  };
}

interface ServerRow {
  readonly version: number;
  readonly encoding: string;
  readonly replicationRole: string;
}

const serverSql = `
SELECT current_setting('server_version_num')::int AS "version",
       current_setting('server_encoding') AS "encoding",
       current_setting('session_replication_role') AS "replicationRole"`;

interface RelationRow extends Omit<Relation, 'kind' | 'may'> {
  readonly kind: string;
  readonly may_select: boolean;
  readonly may_delete: boolean;
  readonly may_update: boolean;
}

// tgtype: 1 = for each row, 2 = BEFORE, 8 = DELETE, 16 = UPDATE. A view is its own INSTEAD rule, and is refused anyway.
const relationsSql = `
SELECT c.oid,
       n.nspname AS "schema",
       c.relname AS "name",
       c.relkind AS "kind",
       CASE WHEN c.relispartition THEN pg_partition_root(c.oid)::oid END AS "root",
       CASE WHEN c.relispartition THEN '{}' ELSE
         ARRAY(SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = c.oid ORDER BY i.inhseqno) END AS "inherits",
       row_security_active(c.oid) AS "rowSecurity",
       CASE WHEN c.reltuples >= 0 THEN c.reltuples::float8 END AS "rows",
       c.relhasrules OR EXISTS (
         SELECT 1 FROM pg_trigger t
          WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgtype & 3 = 3 AND t.tgtype & 24 <> 0
       ) AS "mayRefuseSilently",
       has_any_column_privilege(c.oid, 'SELECT') AS may_select,
       has_table_privilege(c.oid, 'DELETE') AS may_delete,
       has_any_column_privilege(c.oid, 'UPDATE') AS may_update
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
   AND n.nspname NOT IN ('pg_catalog', 'information_schema')
   AND n.nspname !~ '^pg_(toast|temp_)'
 ORDER BY c.oid`;

function toRelations(rows: readonly RelationRow[]): ReadonlyMap<number, Relation> {
  // What a trigger of one partition does to its rows, it does to rows of the whole.
  const silent = new Set(rows.filter((row) => row.mayRefuseSilently).map((row) => row.root));
  return new Map(
    rows.map((row) => [
      row.oid,
      toRelation({ ...row, mayRefuseSilently: row.mayRefuseSilently || silent.has(row.oid) }),
    ]),
  );
}

function toRelation(row: RelationRow): Relation {
  const { oid, schema, name, kind, root, inherits, rowSecurity, rows, mayRefuseSilently } = row;
  const may = { select: row.may_select, delete: row.may_delete, update: row.may_update };
  const known = kinds[kind] ?? 'table';
  return { oid, schema, name, kind: known, root, inherits, rowSecurity, rows, mayRefuseSilently, may };
}

interface ForeignKeyRow {
  readonly name: string;
  readonly child: number;
  readonly parent: number;
  readonly childColumns: readonly string[];
  readonly parentColumns: readonly string[];
  readonly onDelete: string;
  readonly onUpdate: string;
  readonly enforced: boolean;
}

// conparentid: the copies of a constraint that the partitions of either side have. The triggers of those are checked too.
const foreignKeysSql = `
SELECT c.conname AS "name",
       c.conrelid AS "child",
       c.confrelid AS "parent",
       ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY AS k (attnum, position)
               JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.attnum ORDER BY k.position) AS "childColumns",
       ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY AS k (attnum, position)
               JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.attnum ORDER BY k.position) AS "parentColumns",
       c.confdeltype AS "onDelete",
       c.confupdtype AS "onUpdate",
       c.convalidated AND NOT EXISTS (
         SELECT 1 FROM pg_constraint p JOIN pg_trigger t ON t.tgconstraint = p.oid
          WHERE (p.oid = c.oid OR p.conparentid = c.oid) AND t.tgenabled IN ('D', 'R')
       ) AS "enforced"
  FROM pg_constraint c
 WHERE c.contype = 'f' AND c.conparentid = 0
 ORDER BY c.conrelid, c.conname`;

function toForeignKey(row: ForeignKeyRow, relations: ReadonlyMap<number, Relation>): ForeignKey {
  const rootOf = (oid: number): number => relations.get(oid)?.root ?? oid;
  return {
    name: row.name,
    child: rootOf(row.child),
    childPart: row.child,
    childColumns: row.childColumns,
    parent: rootOf(row.parent),
    parentColumns: row.parentColumns,
    onDelete: actions[row.onDelete] ?? 'NO ACTION',
    onUpdate: actions[row.onUpdate] ?? 'NO ACTION',
    enforced: row.enforced,
  };
}

// format_type(x, -1): with NULL it writes char without a length as "character", which is read as a length of one.
const columnsSql = `
WITH RECURSIVE below AS (
  SELECT a.attrelid, a.attnum, a.atttypid AS type, a.attnotnull AS not_null
    FROM pg_attribute a
   WHERE a.attrelid = ANY ($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.attrelid, b.attnum, t.typbasetype, b.not_null OR t.typnotnull
    FROM below b JOIN pg_type t ON t.oid = b.type
   WHERE t.typtype = 'd'
)
SELECT a.attrelid AS "relation",
       a.attname AS "name",
       t.typname AS "typeName",
       n.nspname AS "typeSchema",
       format_type(t.oid, -1) AS "type",
       format_type(a.atttypid, a.atttypmod) AS "declaredType",
       t.typcategory AS "category",
       b.not_null AS "notNull",
       a.attgenerated <> '' OR a.attidentity = 'a' AS "generated"
  FROM below b
  JOIN pg_attribute a ON a.attrelid = b.attrelid AND a.attnum = b.attnum
  JOIN pg_type t ON t.oid = b.type AND t.typtype <> 'd'
  JOIN pg_namespace n ON n.oid = t.typnamespace
 ORDER BY a.attrelid, a.attnum`;

// to_jsonb: indnullsnotdistinct came with PostgreSQL 15.
const indexesSql = `
SELECT i.indrelid AS "relation",
       c.relname AS "name",
       ARRAY(SELECT a.attname::text
               FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, position)
               LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum > 0
              WHERE k.position <= i.indnkeyatts ORDER BY k.position) AS "columns",
       i.indisunique AS "unique",
       i.indisprimary AS "primary",
       coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false) AS "nullsNotDistinct",
       i.indisvalid AND i.indpred IS NULL AS "whole"
  FROM pg_index i
  JOIN pg_class c ON c.oid = i.indexrelid
 WHERE i.indrelid = ANY ($1::oid[])
 ORDER BY i.indrelid, c.relname`;

const constraintNamesSql = `
SELECT conname AS "name" FROM pg_constraint
UNION
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indisunique`;

function byRelation(columns: readonly Column[]): Map<number, Map<string, Column>> {
  const found = new Map<number, Map<string, Column>>();
  for (const column of columns) {
    const ofRelation = found.get(column.relation) ?? new Map<string, Column>();
    ofRelation.set(column.name, column);
    found.set(column.relation, ofRelation);
  }
  return found;
}
