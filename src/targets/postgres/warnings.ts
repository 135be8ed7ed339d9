/** What is no reason to refuse a declaration, but what somebody should know before the first erase. */
import { type Catalogue, type Relation, relationName } from '../../schema/catalogue.js';
import { acts, type BoundPlace, changeOf } from '../tables/bound-place.js';
import type { Query } from './connection.js';
import type { Plan } from '../tables/plan.js';
import { keysReached } from '../../schema/references.js';
import { quoted } from './sql.js';

/** One thing to know. `message` is a sentence. */
export interface PostgresWarning {
  readonly code: 'MISSING_INDEX' | 'TRIGGER' | 'MATERIALIZED_VIEW';
  readonly table: string;
  readonly message: string;
  /** Size of the table that is read whole each time, in bytes; 0 for other warnings. */
  readonly bytes: number;
  /** A statement that mends it, where there is one. */
  readonly statement: string | null;
}

export async function findWarnings(query: Query, plan: Plan): Promise<readonly PostgresWarning[]> {
  const tables = [...new Set(plan.places.map(({ relation }) => relation.oid))];
  return [
    ...(await missingIndexes(query, plan)),
    ...(await triggers(query, tables, plan.catalogue)),
    ...(await materializedViews(query, tables, plan.catalogue)),
  ];
}

/** A key column or a referencing foreign key without an index: each statement, or each deleted row, reads a whole table. */
async function missingIndexes(query: Query, plan: Plan): Promise<readonly PostgresWarning[]> {
  const missing = new Map<string, { readonly relation: Relation; readonly columns: readonly string[] }>();
  const need = (relation: Relation, columns: readonly string[]): void => {
    if (!isIndexed(plan.catalogue, relation, columns))
      missing.set(`${relation.oid}:${columns.join()}`, { relation, columns });
  };
  for (const place of plan.places) {
    for (const [relation, columns] of lookups(place)) need(relation, columns);
    if (!acts(place)) continue;
    for (const key of keysReached(plan.catalogue, place.relation, changeOf(place))) {
      need(plan.catalogue.relations.get(key.child)!, key.childColumns);
    }
  }
  const found: PostgresWarning[] = [];
  for (const { relation, columns } of missing.values()) {
    const bytes = await sizeOf(query, relation);
    const list = columns.map(quoted).join(', ');
    // CONCURRENTLY is not to be had for a partitioned table.
    const how = relation.kind === 'partitioned table' ? 'INDEX' : 'INDEX CONCURRENTLY';
    found.push({
      code: 'MISSING_INDEX',
      table: relationName(relation),
      message: `"${relationName(relation)}" (${bytes} bytes) has no index on ${columns.join(', ')}, so that each look-up reads all of it.`,
      bytes,
      statement: `CREATE ${how} ON ${quoted(relation.schema)}.${quoted(relation.name)} (${list});`,
    });
  }
  return found;
}

function lookups({ relation, link }: BoundPlace): readonly (readonly [Relation, readonly string[]])[] {
  if (link.by === 'key') return [[relation, link.columns.map(({ column }) => column.name)]];
  return [[relation, link.on.map(({ column }) => column.name)]];
}

function isIndexed(catalogue: Catalogue, relation: Relation, columns: readonly string[]): boolean {
  return catalogue.indexes.some(
    ({ relation: oid, whole, columns: [first] }) =>
      oid === relation.oid && whole && first !== undefined && first !== null && columns.includes(first),
  );
}

async function sizeOf(query: Query, { oid }: Relation): Promise<number> {
  const [row] = await query<{ readonly bytes: number }>(
    `SELECT coalesce(sum(pg_table_size(relid)), 0)::float8 AS bytes
       FROM (SELECT relid FROM pg_partition_tree($1::oid::regclass)
             UNION SELECT $1::oid::regclass) AS parts`,
    [oid],
  );
  return row?.bytes ?? 0;
}

/** A trigger that writes an audit row copies what is erased; nobody but its author knows. */
async function triggers(
  query: Query,
  tables: readonly number[],
  catalogue: Catalogue,
): Promise<readonly PostgresWarning[]> {
  const rows = await query<{ readonly table: number; readonly name: string }>(
    `SELECT tgrelid AS "table", tgname AS "name" FROM pg_trigger
      WHERE tgrelid = ANY ($1::oid[]) AND NOT tgisinternal AND tgtype & 24 <> 0 AND tgenabled <> 'D'
      ORDER BY tgrelid, tgname`,
    [tables],
  );
  return rows.map(({ table, name }) => {
    const relation = relationName(catalogue.relations.get(table)!);
    const message = `The trigger "${name}" runs when rows of "${relation}" are deleted or changed; make sure that it copies nothing of them.`;
    return { code: 'TRIGGER', table: relation, message, bytes: 0, statement: null };
  });
}

/** A materialized view is a copy that no DELETE reaches. */
async function materializedViews(
  query: Query,
  tables: readonly number[],
  catalogue: Catalogue,
): Promise<readonly PostgresWarning[]> {
  const rows = await query<{ readonly view: number; readonly table: number }>(
    `SELECT DISTINCT c.oid AS "view", d.refobjid AS "table"
       FROM pg_depend d
       JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
       JOIN pg_class c ON c.oid = r.ev_class AND c.relkind = 'm'
      WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = ANY ($1::oid[])
      ORDER BY 1, 2`,
    [tables],
  );
  return rows.map(({ view, table }) => {
    const copy = catalogue.relations.get(view)!;
    const name = relationName(catalogue.relations.get(table)!);
    return {
      code: 'MATERIALIZED_VIEW',
      table: name,
      message: `The materialized view "${relationName(copy)}" holds a copy of rows of "${name}" until it is refreshed.`,
      bytes: 0,
      statement: `REFRESH MATERIALIZED VIEW ${quoted(copy.schema)}.${quoted(copy.name)};`,
    };
  });
}
