/**
 * Every schema that a release had is kept as a dump with rows, and comes to the newest one without losing any. Number 1 was
 * never released by itself; it is kept so that this test upgraded something before there was a second release.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { sql } from 'kysely';
import pg from 'pg';
import { expect, test } from 'vitest';
import { createTestDatabase, describeWithPostgres } from '../../../test/support/postgres.js';
import type { Database } from '../database.js';
import { openPostgres } from '../postgres/postgres-database.js';
import { migrate, requireCurrentSchema } from './migrate.js';
import { migrations } from './migrations.js';

const directory = new URL('../../../test/fixtures/schemas/', import.meta.url);
const kept = readdirSync(directory).sort();

/** Runs `work` on a new database, into which `script` was read. */
async function onDatabase<T>(script: string, work: (database: Database) => Promise<T>): Promise<T> {
  const own = await createTestDatabase();
  try {
    const client = new pg.Client({ connectionString: own.url });
    await client.connect();
    // Its settings end with its connection.
    await client.query(script).finally(() => client.end());
    const database = openPostgres({ url: own.url });
    return await work(database).finally(() => database.close());
  } finally {
    await own.drop();
  }
}

/** Everything in the schema, as the catalogue writes it; the order of columns does not matter. */
async function catalogue({ db, schema }: Database): Promise<readonly string[]> {
  const { rows } = await sql<{ line: string }>`
    WITH relation AS (SELECT oid, relname FROM pg_class WHERE relnamespace = ${schema}::text::regnamespace)
    SELECT format('column %s.%s %s %s %s %s', relname, attname, format_type(atttypid, atttypmod), attnotnull, attidentity,
                  pg_get_expr(adbin, adrelid)) AS line
      FROM relation JOIN pg_attribute ON attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
      LEFT JOIN pg_attrdef ON adrelid = relation.oid AND adnum = attnum
    UNION ALL
    SELECT format('constraint %s %s %s', relname, conname, pg_get_constraintdef(pg_constraint.oid))
      FROM relation JOIN pg_constraint ON conrelid = relation.oid
    UNION ALL
    SELECT pg_get_indexdef(indexrelid) FROM relation JOIN pg_index ON indrelid = relation.oid
    UNION ALL
    SELECT pg_get_triggerdef(pg_trigger.oid) FROM relation JOIN pg_trigger ON tgrelid = relation.oid AND NOT tgisinternal
    UNION ALL
    SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = ${schema}::text::regnamespace
    ORDER BY line`.execute(db);
  return rows.map(({ line }) => line);
}

type Rows = Readonly<Record<string, readonly unknown[]>>;

/** All rows of all tables but the ledger, by table. */
async function contents({ db, schema }: Database): Promise<Rows> {
  const { rows: tables } = await sql<{ name: string }>`
    SELECT tablename::text AS name FROM pg_tables
     WHERE schemaname = ${schema}::text AND tablename <> 'schema_migrations'`.execute(db);
  const found: Record<string, readonly unknown[]> = {};
  for (const { name } of tables) {
    const { rows } = await sql<{ row: unknown }>`
      SELECT to_jsonb(r) AS row FROM ${sql.id(schema, name)} AS r ORDER BY to_jsonb(r)::text`.execute(db);
    found[name] = rows.map(({ row }) => row);
  }
  return found;
}

describeWithPostgres('a kept schema', () => {
  test('is there for the first release', () => {
    expect(kept).toEqual(expect.arrayContaining(['0001.sql', '0002.sql', '0003.sql', '0004.sql']));
    expect(kept.map((name) => /^\d{4}\.sql$/.test(name))).not.toContain(false);
  });

  test.each(kept)('comes to the newest schema with all of its rows: %s', async (name) => {
    const script = readFileSync(new URL(name, directory), 'utf8');
    const number = Number(name.slice(0, 4));
    const upgraded = await onDatabase(script, async (database) => {
      const before = await contents(database);
      // Empty tables would prove nothing.
      expect(Object.entries(before).filter(([, rows]) => rows.length === 0)).toEqual([]);
      const { applied } = await migrate(database).catch((error: unknown) => {
        throw new Error(`a released migration was changed, or ${name} is to be kept again (scripts/keep-schema.mjs)`, {
          cause: error,
        });
      });
      expect(applied).toHaveLength(migrations().length - number);
      await requireCurrentSchema(database);
      // Later columns may have come; nothing else may have changed.
      expect(await contents(database)).toMatchObject(before);
      return catalogue(database);
    });
    const fresh = await onDatabase('', async (database) => {
      await migrate(database);
      return catalogue(database);
    });
    expect(upgraded).toEqual(fresh);
  });
});
