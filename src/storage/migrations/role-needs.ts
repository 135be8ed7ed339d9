/**
 * What each of the database's own roles needs, one role for each door (architecture.md, "Least privilege"): as statements
 * for an operator to read, each with the question whether the database grants it already.
 */
import { type RawBuilder, sql } from 'kysely';
import { type TableKey, TABLES } from '../database.js';

/** One privilege of one role, or one setting. */
export interface Need {
  readonly statement: string;
  /** True where the role has it, by whatever way. Asked of a role that does not exist, it fails. */
  readonly met: RawBuilder<boolean>;
}

interface Grant {
  readonly privilege: 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE';
  readonly on: readonly TableKey[];
  /** Of these columns only. */
  readonly columns?: readonly string[];
}

const READ_RECORD = [
  'requests',
  'inventories',
  'approvals',
  'stages',
  'orders',
  'receipts',
  'events',
  'batches',
  'omissions',
  'standing',
  'standingDecisions',
] as const;

const grants = {
  // Applications: may ask who is gone, and nothing else.
  expunge_guard: [{ privilege: 'SELECT', on: ['tombstones'] }],
  // Submits, approves and orders; cannot open identifiers, erase, or speak for a target.
  expunge_client: [
    { privilege: 'SELECT', on: [...READ_RECORD, 'tombstones'] },
    {
      privilege: 'INSERT',
      on: ['requests', 'inventories', 'approvals', 'sealed', 'orders', 'events', 'stages', 'batches', 'omissions'],
    },
    { privilege: 'UPDATE', on: ['requests', 'stages', 'orders', 'batches'] },
    { privilege: 'SELECT', on: ['sealed'], columns: ['request_id'] },
    { privilege: 'DELETE', on: ['sealed'] },
  ],
  // Opens, erases and signs; cannot approve.
  expunge_worker: [
    { privilege: 'SELECT', on: [...READ_RECORD, 'tombstones', 'sealed'] },
    { privilege: 'INSERT', on: ['inventories', 'stages', 'receipts', 'events', 'sealed', 'tombstones', 'orders'] },
    { privilege: 'UPDATE', on: ['requests', 'stages', 'orders', 'tombstones', 'sealed'] },
    { privilege: 'DELETE', on: ['sealed'] },
  ],
  // People who propose, approve and revoke standing approvals: nobody else writes them.
  expunge_approver: [
    { privilege: 'SELECT', on: READ_RECORD },
    { privilege: 'INSERT', on: ['standing', 'standingDecisions', 'events'] },
  ],
} as const satisfies Readonly<Record<string, readonly Grant[]>>;

export type RoleName = keyof typeof grants;

export const ROLES = Object.keys(grants) as readonly RoleName[];

/** All that `role` needs in `schema` of the database that is named `database`. */
export function needsOf(role: RoleName, database: string, schema: string): readonly Need[] {
  const tables: readonly Grant[] = grants[role];
  return [
    connect(role, database),
    usage(role, schema),
    privilege(role, schema, 'SELECT', ['schema_migrations']),
    ...tables.map(({ privilege: kind, on, columns }) =>
      privilege(
        role,
        schema,
        kind,
        on.map((table) => TABLES[table]),
        columns,
      ),
    ),
    ...(role === 'expunge_worker' ? [execute(role, schema, 'apply_standing_approvals(uuid[])')] : []),
    searchPath(role, database, schema),
  ];
}

function connect(role: RoleName, database: string): Need {
  return {
    statement: `GRANT CONNECT ON DATABASE ${quote(database)} TO ${role}`,
    met: sql`has_database_privilege(${role}::text, current_database(), 'CONNECT')`,
  };
}

function usage(role: RoleName, schema: string): Need {
  return {
    statement: `GRANT USAGE ON SCHEMA ${quote(schema)} TO ${role}`,
    met: sql`has_schema_privilege(${role}::text, ${schema}::text, 'USAGE')`,
  };
}

/** Of a function that does for the role what the role itself may not. */
function execute(role: RoleName, schema: string, name: string): Need {
  return {
    statement: `GRANT EXECUTE ON FUNCTION ${quote(schema)}.${name} TO ${role}`,
    met: sql`has_function_privilege(${role}::text, quote_ident(${schema}::text) || '.' || ${name}::text, 'EXECUTE')`,
  };
}

function privilege(
  role: RoleName,
  schema: string,
  kind: Grant['privilege'],
  tables: readonly string[],
  columns: readonly string[] = [],
): Need {
  const what = columns.length === 0 ? kind : `${kind} (${columns.join(', ')})`;
  const has = (table: string): RawBuilder<boolean> => {
    const relation = sql`format('%I.%I', ${schema}::text, ${table}::text)`;
    if (columns.length === 0) return sql`has_table_privilege(${role}::text, ${relation}, ${kind}::text)`;
    return all(
      columns.map((column) => sql`has_column_privilege(${role}::text, ${relation}, ${column}::text, ${kind}::text)`),
    );
  };
  return {
    statement: `GRANT ${what} ON ${tables.map((table) => `${quote(schema)}.${table}`).join(', ')} TO ${role}`,
    met: all(tables.map(has)),
  };
}

/**
 * Operators' own SQL names tables unqualified. For this database only: another one may keep its schema elsewhere. What
 * follows the schema in the path is the administrator's to choose.
 */
function searchPath(role: RoleName, database: string, schema: string): Need {
  return {
    statement: `ALTER ROLE ${role} IN DATABASE ${quote(database)} SET search_path = ${quote(schema)}, public`,
    met: sql`EXISTS (
      SELECT FROM pg_db_role_setting s
        JOIN pg_roles r ON r.oid = s.setrole
        JOIN pg_database d ON d.oid = s.setdatabase
       CROSS JOIN unnest(s.setconfig) AS setting
       WHERE r.rolname = ${role}::text AND d.datname = current_database()
         AND starts_with(setting || ',', 'search_path=' || quote_ident(${schema}::text) || ','))`,
  };
}

function all(conditions: readonly RawBuilder<unknown>[]): RawBuilder<boolean> {
  return sql`(${sql.join([...conditions], sql` AND `)})`;
}

function quote(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}
