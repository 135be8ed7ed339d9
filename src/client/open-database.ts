/** Opens Expunge's own database as a command or an application needs it: checked, and on a schema that fits. */
import type { DatabaseSource } from '../config/resolved-config.js';
import { endAbandonedLeases } from '../requests/release.js';
import type { Database } from '../storage/database.js';
import { migrate, type MigrationReport, requireCurrentSchema } from '../storage/migrations/migrate.js';
import { ensureRoles, type RolesReport } from '../storage/migrations/roles.js';
import { openPGlite } from '../storage/pglite/pglite-database.js';
import { openPostgres } from '../storage/postgres/postgres-database.js';

/**
 * An embedded database is brought up to date here, since nobody else can; a server's is only checked.
 * @throws DatabaseUnavailableError, SchemaVersionError, EmbeddedDatabaseError
 */
export async function openDatabase(source: DatabaseSource): Promise<Database> {
  const database = open(source);
  try {
    if (source.kind === 'pglite') {
      await migrate(database);
      await endAbandonedLeases(database);
    } else {
      await requireCurrentSchema(database);
    }
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

export interface MigrateReport extends MigrationReport, RolesReport {
  readonly location: string;
}

/** What `expunge migrate` does. */
export async function migrateDatabase(source: DatabaseSource): Promise<MigrateReport> {
  const database = open(source);
  try {
    const { applied } = await migrate(database);
    const roles = await ensureRoles(database);
    return { location: database.location, applied, ...roles };
  } finally {
    await database.close();
  }
}

function open(source: DatabaseSource): Database {
  return source.kind === 'postgres'
    ? openPostgres({ url: source.url })
    : openPGlite({ directory: source.directory, allowInProduction: source.allowInProduction });
}
