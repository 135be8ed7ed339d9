/** Reads the catalogue of a SQLite file. */
import type { Catalogue, Column, ForeignKey, Index, ReferentialAction, Relation } from '../../schema/catalogue.js';
import type { Session } from '../tables/store/store.js';
import { affinityOf, nameRows } from './forms.js';
import { type SearchIndex, searchIndexOf } from './search-index.js';

export interface SqliteCatalogue extends Catalogue {
  /** FTS5 indexes by the number of their relation. */
  readonly searchIndexes: ReadonlyMap<number, SearchIndex>;
  /** Tables whose rows have no number by which they could be named. */
  readonly unnamed: ReadonlySet<number>;
  readonly shadows: ReadonlySet<string>;
  /** The statements that made views, by name. */
  readonly views: ReadonlyMap<string, string>;
}

interface TableRow {
  readonly name: string;
  readonly type: string;
  readonly wr: number;
  readonly sql: string;
}

export async function readCatalogue(session: Session): Promise<SqliteCatalogue> {
  const tables = (await session.query(
    `SELECT l.name, l.type, l.wr, coalesce(m.sql, '') AS sql
       FROM pragma_table_list AS l JOIN main.sqlite_schema AS m ON m.name = l.name AND m.type IN ('table', 'view')
      WHERE l.schema = 'main' ORDER BY l.name`,
    [],
  )) as readonly unknown[] as readonly TableRow[];
  const relations = new Map<number, Relation>();
  const searchIndexes = new Map<number, SearchIndex>();
  for (const [oid, { name, type, sql }] of tables.entries()) {
    const search = type === 'virtual' ? searchIndexOf(name, sql) : null;
    if (search) searchIndexes.set(oid, search);
    relations.set(oid, relationOf(oid, name, kindOf(type, search)));
  }
  const columns = await readColumns(session, relations, searchIndexes);
  const unnamed = new Set<number>();
  for (const [oid, { wr }] of tables.entries()) {
    const names = searchIndexes.has(oid) ? [] : [...columns.get(oid)!.keys()];
    if (!nameRows(relations.get(oid)!, names) || wr === 1) unnamed.add(oid);
  }
  return {
    server: { version: 0, encoding: 'UTF8', replicationRole: 'origin' },
    relations,
    columns,
    foreignKeys: await readForeignKeys(session, relations),
    indexes: await readIndexes(session, relations),
    constraintNames: new Set(),
    searchIndexes,
    unnamed,
    shadows: new Set(tables.filter(({ type }) => type === 'shadow').map(({ name }) => name)),
    views: new Map(tables.filter(({ type }) => type === 'view').map(({ name, sql }) => [name, sql])),
  };
}

function kindOf(type: string, search: SearchIndex | null): Relation['kind'] {
  if (type === 'view') return 'view';
  return type === 'virtual' && search === null ? 'virtual table' : 'table';
}

function relationOf(oid: number, name: string, kind: Relation['kind']): Relation {
  return {
    oid,
    schema: 'main',
    defaultSchema: 'main',
    name,
    kind,
    root: null,
    inherits: [],
    rowSecurity: false,
    rows: null,
    mayRefuseSilently: true,
    may: { select: true, delete: true, update: true },
  };
}

async function readColumns(
  session: Session,
  relations: ReadonlyMap<number, Relation>,
  searchIndexes: ReadonlyMap<number, SearchIndex>,
): Promise<Map<number, Map<string, Column>>> {
  const rows = await session.query(
    `SELECT l.name AS relation, c.name, c.type, c."notnull" AS required, c.hidden
       FROM pragma_table_list AS l, pragma_table_xinfo(l.name) AS c WHERE l.schema = 'main' AND l.type <> 'view'`,
    [],
  );
  const columns = new Map<number, Map<string, Column>>();
  for (const { oid, name } of relations.values()) {
    const search = searchIndexes.get(oid);
    const found = rows
      .filter((row) => row['relation'] === name && (search === undefined || row['hidden'] === 0))
      .map((row) =>
        columnOf(oid, String(row['name']), String(row['type']), row['required'] === 1, row['hidden'] !== 0),
      );
    // Without content there is nothing to compare with but the number of the document.
    const readable = search?.content === 'none' ? [] : found;
    const numbered = search ? [columnOf(oid, 'rowid', 'INTEGER', true, true)] : [];
    columns.set(oid, new Map([...numbered, ...readable].map((column) => [column.name, column])));
  }
  return columns;
}

function columnOf(relation: number, name: string, type: string, notNull: boolean, generated: boolean): Column {
  const affinity = affinityOf(type);
  return {
    relation,
    name,
    typeName: affinity,
    typeSchema: 'main',
    type: affinity,
    declaredType: type === '' ? 'none' : type,
    category: '',
    notNull,
    generated,
  };
}

async function readForeignKeys(
  session: Session,
  relations: ReadonlyMap<number, Relation>,
): Promise<readonly ForeignKey[]> {
  const byName = new Map([...relations.values()].map((relation) => [relation.name.toLowerCase(), relation]));
  const rows = await session.query(
    `SELECT l.name AS child, k.id, k."table" AS parent, k."from" AS source, k.on_delete, k.on_update,
            coalesce(k."to", (SELECT i.name FROM pragma_table_xinfo(k."table") AS i WHERE i.pk = k.seq + 1)) AS target
       FROM pragma_table_list AS l, pragma_foreign_key_list(l.name) AS k
      WHERE l.schema = 'main' ORDER BY l.name, k.id, k.seq`,
    [],
  );
  const keys = new Map<string, { readonly key: ForeignKey; readonly from: string[]; readonly to: string[] }>();
  for (const row of rows) {
    const child = byName.get(String(row['child']).toLowerCase());
    const parent = byName.get(String(row['parent']).toLowerCase());
    if (!child || !parent) continue;
    const id = `${child.oid}/${String(row['id'])}`;
    const known = keys.get(id) ?? { key: keyOf(child, parent, row), from: [], to: [] };
    known.from.push(String(row['source']));
    known.to.push(String(row['target']));
    keys.set(id, known);
  }
  return [...keys.values()].map(({ key, from, to }) => ({
    ...key,
    name: `${key.name}.${from.join('_')}`,
    childColumns: from,
    parentColumns: to,
  }));
}

function keyOf(child: Relation, parent: Relation, row: Readonly<Record<string, unknown>>): ForeignKey {
  return {
    name: child.name,
    child: child.oid,
    childPart: child.oid,
    childColumns: [],
    parent: parent.oid,
    parentColumns: [],
    onDelete: String(row['on_delete']) as ReferentialAction,
    onUpdate: String(row['on_update']) as ReferentialAction,
    // Whoever writes decides for each connection whether keys hold.
    enforced: false,
  };
}

async function readIndexes(session: Session, relations: ReadonlyMap<number, Relation>): Promise<readonly Index[]> {
  const rows = await session.query(
    `SELECT l.name AS relation, x.name, x."unique" AS single, x.origin, x.partial, i.name AS part
       FROM pragma_table_list AS l, pragma_index_list(l.name) AS x, pragma_index_info(x.name) AS i
      WHERE l.schema = 'main' ORDER BY l.name, x.name, i.seqno`,
    [],
  );
  const found: Index[] = [];
  for (const { oid, name } of relations.values()) {
    const own = rows.filter((row) => row['relation'] === name);
    for (const index of new Set(own.map((row) => String(row['name'])))) {
      const parts = own.filter((row) => row['name'] === index);
      found.push({
        relation: oid,
        name: index,
        columns: parts.map(({ part }) => (typeof part === 'string' ? part : null)),
        unique: parts[0]!['single'] === 1,
        primary: parts[0]!['origin'] === 'pk',
        nullsNotDistinct: false,
        whole: parts[0]!['partial'] === 0,
      });
    }
  }
  return found;
}
