/**
 * The database's own roles, one for each door (architecture.md, "Least privilege"). Roles belong to the whole cluster: they
 * are created only where they are missing, without a password, and what this connection may not do is returned as SQL.
 */
import { sql } from 'kysely';
import { type Database, type TableKey, TABLES } from '../database.js';

const READ_RECORD = ['requests', 'inventories', 'approvals', 'stages', 'orders', 'receipts', 'events'] as const;

interface Grant {
  readonly privilege: string;
  readonly on: readonly TableKey[];
}

const grants: Readonly<Record<string, readonly Grant[]>> = {
  // Applications: may ask who is gone, and nothing else.
  expunge_guard: [{ privilege: 'SELECT', on: ['tombstones'] }],
  // Submits, approves and orders; cannot open identifiers, erase, or speak for a target.
  expunge_client: [
    { privilege: 'SELECT', on: [...READ_RECORD, 'tombstones'] },
    { privilege: 'INSERT', on: ['requests', 'inventories', 'approvals', 'sealed', 'orders', 'events', 'stages'] },
    { privilege: 'UPDATE', on: ['requests', 'stages', 'orders'] },
    { privilege: 'SELECT (request_id), DELETE', on: ['sealed'] },
  ],
  // Opens, erases and signs; cannot approve.
  expunge_worker: [
    { privilege: 'SELECT', on: [...READ_RECORD, 'tombstones', 'sealed'] },
    { privilege: 'INSERT', on: ['inventories', 'stages', 'receipts', 'events', 'sealed', 'tombstones', 'orders'] },
    { privilege: 'UPDATE', on: ['requests', 'stages', 'orders', 'tombstones', 'sealed'] },
    { privilege: 'DELETE', on: ['sealed'] },
  ],
};

export interface RolesReport {
  readonly created: readonly string[];
  /** Statements that somebody with more rights has to run; empty when all is done. */
  readonly owed: readonly string[];
}

export async function ensureRoles(database: Database): Promise<RolesReport> {
  const created: string[] = [];
  const owed: string[] = [];
  for (const role of Object.keys(grants)) {
    if (await exists(database, role)) continue;
    const statement = `CREATE ROLE ${role} LOGIN`;
    if (await attempt(database, [statement])) created.push(role);
    else if (!(await exists(database, role))) owed.push(statement, ...statementsFor(database, role));
  }
  for (const role of Object.keys(grants)) {
    if (!(await exists(database, role))) continue;
    const statements = statementsFor(database, role);
    if (!(await attempt(database, statements))) owed.push(...statements);
  }
  return { created, owed };
}

async function exists(database: Database, role: string): Promise<boolean> {
  const { rows } = await sql`SELECT 1 FROM pg_roles WHERE rolname = ${role}::text`.execute(database.db);
  return rows.length > 0;
}

/** In a transaction of its own, since a refusal would spoil a shared one. False when the database refused. */
async function attempt(database: Database, statements: readonly string[]): Promise<boolean> {
  try {
    await database.transaction(async (tx) => {
      for (const statement of statements) await sql.raw(statement).execute(tx.db);
    });
    return true;
  } catch (error) {
    if (isRefusal(error)) return false;
    throw error;
  }
}

/** No privilege (42501), created meanwhile by another migration (42710, 23505), or changed at the same time (XX000). */
function isRefusal(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' && ['42501', '42710', '23505', 'XX000'].includes(code);
}

function statementsFor(database: Database, role: string): string[] {
  const schema = quote(database.schema);
  const lines = [
    `GRANT USAGE ON SCHEMA ${schema} TO ${role}`,
    `GRANT SELECT ON ${schema}.schema_migrations TO ${role}`,
  ];
  for (const { privilege, on } of grants[role] ?? []) {
    lines.push(`GRANT ${privilege} ON ${on.map((table) => `${schema}.${TABLES[table]}`).join(', ')} TO ${role}`);
  }
  // Operators' own SQL names tables unqualified. For this database only: another one may keep its schema elsewhere.
  lines.push(
    `DO $$ BEGIN EXECUTE format('ALTER ROLE ${role} IN DATABASE %I SET search_path = %I, public', current_database(), '${database.schema.replaceAll("'", "''")}'); END $$`,
  );
  return lines;
}

function quote(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}
