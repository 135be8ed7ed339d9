/**
 * What a database says of itself: its tables, their columns, keys and indexes, and what references what. A plain
 * model, so that whoever plans or checks with it needs no connection, and a test needs no server.
 *
 * Partitions do not appear by themselves: a foreign key or an index of a partition counts as one of the partitioned table.
 */

export type RelationKind =
  'table' | 'partitioned table' | 'view' | 'materialized view' | 'foreign table' | 'virtual table';

/** What happens to a referencing row, as `pg_constraint.confdeltype` and `confupdtype` have it. */
export type ReferentialAction = 'NO ACTION' | 'RESTRICT' | 'CASCADE' | 'SET NULL' | 'SET DEFAULT';

export interface Relation {
  readonly oid: number;
  readonly schema: string;
  /** The schema that a table is not named with; `public` where absent. */
  readonly defaultSchema?: string;
  readonly name: string;
  readonly kind: RelationKind;
  /** The partitioned table at the top, for a partition. */
  readonly root: number | null;
  /** Tables that this one inherits from (`INHERITS`); partitions are not listed. */
  readonly inherits: readonly number[];
  /** Whether row-level security hides rows from the role that reads the catalogue. */
  readonly rowSecurity: boolean;
  /** The planner's estimate; null where the table was never analysed. */
  readonly rows: number | null;
  /** Whether a rule or a BEFORE trigger on rows can turn a DELETE or an UPDATE into nothing. */
  readonly mayRefuseSilently: boolean;
  /** What the role may do; `select` and `update` mean on one column at least, which is what `FOR UPDATE` asks for. */
  readonly may: { readonly select: boolean; readonly delete: boolean; readonly update: boolean };
}

export interface Column {
  readonly relation: number;
  readonly name: string;
  /** The name of the type below all domains, as `pg_type.typname` has it: `int4`, `citext`. */
  readonly typeName: string;
  /** The schema of that type; `pg_catalog` for the types that come with the server. */
  readonly typeSchema: string;
  /** The same type in SQL, without a length: `character varying`. */
  readonly type: string;
  /** The declared type in SQL, with length and domain: `character varying(40)`. */
  readonly declaredType: string;
  /** `pg_type.typcategory`: S for strings, N for numbers, D for dates and times. */
  readonly category: string;
  /** By the column, or by its domain. */
  readonly notNull: boolean;
  /** Generated, or an identity that is always generated: nobody can set it. */
  readonly generated: boolean;
}

export interface ForeignKey {
  readonly name: string;
  /** The referencing table; the partitioned one, where the constraint is a partition's. */
  readonly child: number;
  /** The table that the constraint stands on: `child`, or a partition of it. */
  readonly childPart: number;
  readonly childColumns: readonly string[];
  readonly parent: number;
  readonly parentColumns: readonly string[];
  readonly onDelete: ReferentialAction;
  readonly onUpdate: ReferentialAction;
  /** Whether it is validated and its triggers are on, so that a referencing row without a referenced one cannot be. */
  readonly enforced: boolean;
}

export interface Index {
  readonly relation: number;
  readonly name: string;
  /** Key columns in their order; null for an expression. */
  readonly columns: readonly (string | null)[];
  readonly unique: boolean;
  readonly primary: boolean;
  readonly nullsNotDistinct: boolean;
  /** Whether it covers every row and may be used. */
  readonly whole: boolean;
}

/** The server and session that the catalogue was read from. */
export interface Server {
  /** As `server_version_num`: 150004. */
  readonly version: number;
  readonly encoding: string;
  /** `origin`, unless the role's settings switch off triggers and foreign keys. */
  readonly replicationRole: string;
}

export interface Catalogue {
  readonly server: Server;
  /** Every table and view outside of the system's schemas, partitions included, by oid. */
  readonly relations: ReadonlyMap<number, Relation>;
  /** Columns of the tables that were asked for, and of their partitions. */
  readonly columns: ReadonlyMap<number, ReadonlyMap<string, Column>>;
  /** All foreign keys of the database, those of partitions once. */
  readonly foreignKeys: readonly ForeignKey[];
  /** Indexes of the tables that were asked for and of those that reference them. */
  readonly indexes: readonly Index[];
  /** Names of constraints and unique indexes, for telling a name from something that a trigger made up. */
  readonly constraintNames: ReadonlySet<string>;
}

/** Finds a table by its exact name, or undefined. */
export function findRelation(catalogue: Catalogue, schema: string, name: string): Relation | undefined {
  for (const relation of catalogue.relations.values()) {
    if (relation.schema === schema && relation.name === name) return relation;
  }
  return undefined;
}

/** Finds a column by its exact name, or undefined. */
export function findColumn(catalogue: Catalogue, relation: Relation, name: string): Column | undefined {
  return catalogue.columns.get(relation.oid)?.get(name);
}

/** A table's name for people: `customer`, `billing.payment`. */
export function relationName(relation: Pick<Relation, 'schema' | 'name' | 'defaultSchema'>): string {
  return relation.schema === (relation.defaultSchema ?? 'public')
    ? relation.name
    : `${relation.schema}.${relation.name}`;
}

/** The columns of the primary key, or else of a unique index that covers every row and holds no NULL; or null. */
export function rowIdentity(catalogue: Catalogue, relation: Relation): readonly Column[] | null {
  const candidates = catalogue.indexes
    .filter((index) => index.relation === relation.oid && index.unique && index.whole)
    .sort((a, b) => Number(b.primary) - Number(a.primary) || a.columns.length - b.columns.length);
  for (const index of candidates) {
    const columns = index.columns.map((name) => (name === null ? undefined : findColumn(catalogue, relation, name)));
    if (columns.every((column) => column?.notNull === true)) return columns as readonly Column[];
  }
  return null;
}

/** Whether at most one row has any given values in these columns, by a unique index over some or all of them. */
export function isUnique(catalogue: Catalogue, relation: Relation, columns: readonly string[]): boolean {
  return catalogue.indexes.some(
    (index) =>
      index.relation === relation.oid &&
      index.unique &&
      index.whole &&
      index.columns.every((column) => column !== null && columns.includes(column)),
  );
}
