/** Brings a database to this program's schema, and refuses to work on one that does not fit it. */
import { sql } from 'kysely';
import type { Database, Queries } from '../database.js';
import { SchemaVersionError } from '../storage-error.js';
import { type Migration, migrations } from './migrations.js';

interface Applied {
  readonly number: number;
  readonly name: string;
  readonly checksum: string;
}

export interface MigrationReport {
  /** Names of what was applied now; empty when the database was up to date. */
  readonly applied: readonly string[];
}

/** PostgreSQL 15, as `server_version_num` counts. */
const OLDEST_SERVER = 150_000;

/** One arbitrary number, so that migrations wait for each other and for nothing else. */
const MIGRATION_LOCK = 7_236_418_205_113_772;

/**
 * Applies what is missing, all in one transaction, under a lock of that transaction: when it fails or refuses, nothing has
 * changed. A statement may take as long as the largest table needs: open the database without a limit on answers.
 * @param upTo - the number to stop after; the newest by default. For dumps of older schemas.
 * @throws SchemaVersionError when the database is newer than this program, was changed, or lacks a number, and when the
 *   server is too old or does not store UTF-8.
 */
export async function migrate(database: Database, upTo = migrations().length): Promise<MigrationReport> {
  return database.transaction(async (tx) => {
    await refuseServer(tx, database.location);
    await sql`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK}::bigint)`.execute(tx.db);
    await createLedger(tx, database.schema);
    const applied = (await readLedger(tx, database.schema)) ?? [];
    refuseMisfit(applied, database);
    const pending = migrations().slice(applied.length, upTo);
    for (const migration of pending) await apply(tx, database.schema, migration);
    return { applied: pending.map((migration) => `${migration.number} ${migration.name}`) };
  });
}

/**
 * Checked at every start of every command.
 * @throws SchemaVersionError unless exactly this program's migrations are applied.
 */
export async function requireCurrentSchema(database: Database): Promise<void> {
  const applied = await readLedger(database, database.schema);
  if (applied === null) {
    throw new SchemaVersionError(
      `The database at ${database.location} has no schema "${database.schema}" of Expunge: run expunge migrate once.`,
    );
  }
  refuseMisfit(applied, database);
  const known = migrations();
  if (applied.length < known.length) {
    throw new SchemaVersionError(
      `The database at ${database.location} is at version ${applied.length} and this program needs ${known.length}: run expunge migrate.`,
    );
  }
}

async function refuseServer(tx: Queries, location: string): Promise<void> {
  const { rows } = await sql<{ version: number; encoding: string }>`
    SELECT current_setting('server_version_num')::integer AS version,
           current_setting('server_encoding') AS encoding`.execute(tx.db);
  const { version, encoding } = rows[0] ?? { version: 0, encoding: 'unknown' };
  if (version < OLDEST_SERVER) {
    throw new SchemaVersionError(
      `The server of ${location} is older than PostgreSQL 15 (server_version_num ${version}): use a newer one.`,
    );
  }
  // One character that it cannot store would fail a whole batch.
  if (encoding !== 'UTF8') {
    throw new SchemaVersionError(
      `The database at ${location} stores text as ${encoding}: create one with ENCODING 'UTF8' and use that.`,
    );
  }
}

function refuseMisfit(applied: readonly Applied[], database: Database): void {
  const known = migrations();
  for (const [index, row] of applied.entries()) {
    if (row.number !== index + 1) {
      throw new SchemaVersionError(
        `The database at ${database.location} lacks migration ${index + 1}: restore its migration ledger from a backup, and roll forward.`,
      );
    }
    const expected = known[index];
    if (expected === undefined) {
      throw new SchemaVersionError(
        `The database at ${database.location} is at version ${applied.length}, newer than this program (${known.length}): roll forward to the newer program.`,
      );
    }
    if (row.checksum !== expected.checksum) {
      throw new SchemaVersionError(
        `Migration ${row.number} of the database at ${database.location} has another checksum than this program's: roll forward to the program that applied it.`,
      );
    }
  }
}

async function createLedger(tx: Queries, schema: string): Promise<void> {
  const quoted = sql.id(schema);
  const { rows } = await sql`SELECT 1 FROM pg_namespace WHERE nspname = ${schema}::text`.execute(tx.db);
  // Asked first: even IF NOT EXISTS needs the right to create schemas.
  if (rows.length === 0) await sql`CREATE SCHEMA ${quoted}`.execute(tx.db);
  await sql`
    CREATE TABLE IF NOT EXISTS ${sql.id(schema, 'schema_migrations')} (
      number     integer PRIMARY KEY,
      name       text NOT NULL,
      checksum   text NOT NULL,
      applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
    )`.execute(tx.db);
}

/** Null when there is no ledger. */
async function readLedger(queries: Queries, schema: string): Promise<readonly Applied[] | null> {
  const found = await sql`
    SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = ${schema}::text AND c.relname = 'schema_migrations'`.execute(queries.db);
  if (found.rows.length === 0) return null;
  const { rows } = await sql<Applied>`
    SELECT number, name, checksum FROM ${sql.id(schema, 'schema_migrations')} ORDER BY number`.execute(queries.db);
  return rows;
}

async function apply(tx: Queries, schema: string, migration: Migration): Promise<void> {
  const quoted = `"${schema.replaceAll('"', '""')}"`;
  // A function, because a "$" in the name would mean something in a replacement text.
  await sql.raw(migration.text.replaceAll('{{schema}}', () => quoted)).execute(tx.db);
  await sql`
    INSERT INTO ${sql.id(schema, 'schema_migrations')} (number, name, checksum)
    VALUES (${migration.number}::integer, ${migration.name}::text, ${migration.checksum}::text)`.execute(tx.db);
}
