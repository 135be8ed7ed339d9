/** Reads the catalogue of a DuckDB file. https://duckdb.org/docs/stable/sql/meta/duckdb_table_functions */
import type { Catalogue, Column, ForeignKey, Index, Relation } from '../../schema/catalogue.js';
import type { Session } from '../tables/store/store.js';

type Row = Readonly<Record<string, unknown>>;

export async function readCatalogue(session: Session): Promise<Catalogue> {
  const tables = await session.query(
    `SELECT schema_name, table_name AS name, 'table' AS kind FROM duckdb_tables()
      WHERE database_name = current_database() AND NOT internal AND NOT temporary
      UNION ALL
     SELECT schema_name, view_name, 'view' FROM duckdb_views()
      WHERE database_name = current_database() AND NOT internal
      ORDER BY ALL`,
    [],
  );
  const relations = new Map(tables.map((row, oid) => [oid, relationOf(row, oid)]));
  const find = (schema: unknown, name: unknown): Relation | undefined =>
    [...relations.values()].find((relation) => relation.schema === schema && relation.name === name);
  const columns = new Map<number, Map<string, Column>>([...relations.keys()].map((oid) => [oid, new Map()]));
  for (const row of await session.query(
    `SELECT schema_name, table_name, column_name, data_type, is_nullable FROM duckdb_columns()
      WHERE database_name = current_database() AND NOT internal`,
    [],
  )) {
    const relation = find(row['schema_name'], row['table_name']);
    if (relation) columns.get(relation.oid)!.set(String(row['column_name']), columnOf(row, relation.oid));
  }
  const constraints = await session.query(
    `SELECT schema_name, table_name, constraint_type, constraint_name, referenced_table,
            to_json(constraint_column_names)::VARCHAR AS names, to_json(referenced_column_names)::VARCHAR AS referenced
       FROM duckdb_constraints()
      WHERE database_name = current_database() AND constraint_type IN ('PRIMARY KEY', 'UNIQUE', 'FOREIGN KEY')`,
    [],
  );
  const foreignKeys: ForeignKey[] = [];
  const indexes: Index[] = [];
  for (const row of constraints) {
    const child = find(row['schema_name'], row['table_name']);
    // Foreign keys do not lead out of a schema.
    const parent = find(row['schema_name'], row['referenced_table']);
    if (!child) continue;
    if (row['constraint_type'] !== 'FOREIGN KEY') indexes.push(indexOf(row, child.oid));
    else if (parent) foreignKeys.push(foreignKeyOf(row, child.oid, parent.oid));
  }
  return {
    server: { version: 0, encoding: 'UTF8', replicationRole: 'origin' },
    relations,
    columns,
    foreignKeys,
    indexes,
    constraintNames: new Set(),
  };
}

function relationOf(row: Row, oid: number): Relation {
  return {
    oid,
    schema: String(row['schema_name']),
    defaultSchema: 'main',
    name: String(row['name']),
    kind: row['kind'] === 'view' ? 'view' : 'table',
    root: null,
    inherits: [],
    rowSecurity: false,
    rows: null,
    mayRefuseSilently: false,
    may: { select: true, delete: true, update: true },
  };
}

function columnOf(row: Row, relation: number): Column {
  const type = String(row['data_type']);
  return {
    relation,
    name: String(row['column_name']),
    typeName: type,
    typeSchema: 'main',
    type,
    declaredType: type,
    category: '',
    notNull: row['is_nullable'] === false,
    generated: false,
  };
}

function foreignKeyOf(row: Row, child: number, parent: number): ForeignKey {
  return {
    name: String(row['constraint_name']),
    child,
    childPart: child,
    childColumns: namesOf(row['names']),
    parent,
    parentColumns: namesOf(row['referenced']),
    // It knows no other.
    onDelete: 'NO ACTION',
    onUpdate: 'NO ACTION',
    enforced: true,
  };
}

function indexOf(row: Row, relation: number): Index {
  return {
    relation,
    name: String(row['constraint_name']),
    columns: namesOf(row['names']),
    unique: true,
    primary: row['constraint_type'] === 'PRIMARY KEY',
    nullsNotDistinct: false,
    whole: true,
  };
}

function namesOf(json: unknown): readonly string[] {
  return JSON.parse(String(json)) as readonly string[];
}
