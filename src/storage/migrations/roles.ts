/**
 * Creates the database's own roles and gives them what they need. Roles belong to the whole cluster, and other databases
 * in it may be doing the same now: they are created only where they are missing, without a password. What this
 * connection may not do is returned as SQL for somebody who may.
 */
import { sql } from 'kysely';
import type { Database } from '../database.js';
import { type Need, needsOf, type RoleName, ROLES } from './role-needs.js';

export interface RolesReport {
  /** Roles that were created now. */
  readonly created: readonly string[];
  /** Statements, without semicolons, that somebody with more rights has to run, in this order; empty when all is done. */
  readonly owed: readonly string[];
}

/** Grants change rows of the catalogue that two transactions may not change at once: in one database, one at a time. */
const ROLES_LOCK = 7_236_418_205_113_773;

/** Call it after `migrate`. Done already, it changes nothing, and needs no rights to say so. */
export async function ensureRoles(database: Database): Promise<RolesReport> {
  const created: string[] = [];
  const owed: string[] = [];
  const name = await databaseName(database);
  for (const role of ROLES) {
    const needs = needsOf(role, name, database.schema);
    const statement = `CREATE ROLE ${role} LOGIN`;
    if (!(await exists(database, role))) {
      const done = await attempt(database, statement);
      if (done) created.push(role);
      // Another database's migration may have been quicker.
      else if (!(await exists(database, role))) {
        owed.push(statement, ...needs.map((need) => need.statement));
        continue;
      }
    }
    owed.push(...(await grant(database, needs)));
  }
  return { created, owed };
}

/** @returns what is still missing. Asked afterwards: a GRANT without the right to it may only warn. */
async function grant(database: Database, needs: readonly Need[]): Promise<readonly string[]> {
  for (const { statement } of await unmet(database, needs)) await attempt(database, statement);
  return (await unmet(database, needs)).map(({ statement }) => statement);
}

async function unmet(database: Database, needs: readonly Need[]): Promise<readonly Need[]> {
  const { rows } = await sql<{ met: readonly boolean[] }>`
    SELECT jsonb_build_array(${sql.join(needs.map(({ met }) => met))}) AS met`.execute(database.db);
  return needs.filter((_need, index) => rows[0]?.met[index] !== true);
}

async function databaseName(database: Database): Promise<string> {
  const { rows } = await sql<{ name: string }>`SELECT current_database()::text AS name`.execute(database.db);
  return rows[0]?.name ?? '';
}

async function exists(database: Database, role: RoleName): Promise<boolean> {
  const { rows } = await sql`SELECT 1 FROM pg_roles WHERE rolname = ${role}::text`.execute(database.db);
  return rows.length > 0;
}

/** In a transaction of its own, since a refusal would spoil a shared one. False when the database refused. */
async function attempt(database: Database, statement: string): Promise<boolean> {
  try {
    await database.transaction(async (tx) => {
      await sql`SELECT pg_advisory_xact_lock(${ROLES_LOCK}::bigint)`.execute(tx.db);
      await sql.raw(statement).execute(tx.db);
    });
    return true;
  } catch (error) {
    if (isRefusal(error)) return false;
    throw error;
  }
}

/** No right to do it (42501), or created meanwhile by another database's migration (42710, or 23505 at the same moment). */
function isRefusal(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === '42501' || code === '42710' || code === '23505';
}
