import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { sql } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeOnBoth, inSchema } from '../../../test/support/both-databases.js';
import { createTestDatabase, describeWithPostgres, type TestDatabase } from '../../../test/support/postgres.js';
import { type Database, TABLES } from '../database.js';
import { openPostgres } from '../postgres/postgres-database.js';
import { migrate, requireCurrentSchema } from './migrate.js';
import { migrations } from './migrations.js';

const current = migrations().length;
const all = migrations().map(({ number, name }) => `${number} ${name}`);

/** A schema of its own for a test. */
const fresh = (database: Database): Database => inSchema(database, `expunge_${randomBytes(6).toString('hex')}`);

/** What is in the schema: its relations, each with its columns, and the ledger. */
async function contents({ db, schema }: Database): Promise<unknown> {
  const { rows: relations } = await sql`
    SELECT c.relname, c.relkind, array_agg(a.attname::text ORDER BY a.attnum) AS columns
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
     WHERE n.nspname = ${schema}::text GROUP BY c.relname, c.relkind ORDER BY c.relname`.execute(db);
  if (relations.length === 0) return null;
  const { rows: ledger } = await sql`SELECT * FROM ${sql.id(schema, 'schema_migrations')} ORDER BY number`.execute(db);
  return { relations, ledger };
}

/** A refusal is one sentence that says what is wrong, and then what to do. */
async function expectRefusal(promise: Promise<unknown>, ...parts: readonly RegExp[]): Promise<void> {
  const error: unknown = await promise.then(
    () => expect.unreachable('it was not refused'),
    (reason: unknown) => reason,
  );
  expect(error).toMatchObject({ code: 'SCHEMA_VERSION', outcome: 'refused' });
  const { message } = error as Error;
  expect(message).toMatch(/^[A-Z][^\n]*: [^\n]+\.$/);
  expect(message).not.toMatch(/\. /);
  for (const part of parts) expect(message).toMatch(part);
}

describe('the migrations of this program', () => {
  test('are numbered from 1 without a gap', () => {
    expect(migrations().map(({ number }) => number)).toEqual(migrations().map((_migration, index) => index + 1));
  });

  test('are all that there are', () => {
    const files = readdirSync(new URL('.', import.meta.url)).filter((name) => name.endsWith('.sql'));
    expect(migrations().map(({ number, name }) => `${String(number).padStart(4, '0')}-${name}.sql`)).toEqual(
      files.sort(),
    );
  });
});

describeOnBoth('migrate', (database) => {
  test.each(['expunge', 'deletions', 'Two Words', `we"i'rd $$ $& {{schema}}`, 'x'.repeat(63)])(
    'brings an empty database to this schema, in the schema "%s", and does nothing the second time',
    async (schema) => {
      const own = inSchema(database(), schema);
      expect(await migrate(own)).toEqual({ applied: all });
      const before = await contents(own);
      expect(await migrate(own)).toEqual({ applied: [] });
      expect(await contents(own)).toEqual(before);
      await requireCurrentSchema(own);
      for (const table of Object.values(TABLES)) await sql`SELECT FROM ${sql.id(schema, table)}`.execute(own.db);
    },
  );

  test('brings every table that the program names, and append-only ones that are', async () => {
    const own = fresh(database());
    await migrate(own);
    const { rows } = await sql<{ name: string }>`
      SELECT tablename::text AS name FROM pg_tables WHERE schemaname = ${own.schema}::text`.execute(own.db);
    const ours = Object.values(TABLES).map(String);
    expect(
      rows
        .map(({ name }) => name)
        .filter((name) => name !== 'schema_migrations')
        .sort(),
    ).toEqual(ours.sort());
    await sql`INSERT INTO ${own.t.events} (event) VALUES ('submitted')`.execute(own.db);
    await expect(sql`DELETE FROM ${own.t.events}`.execute(own.db)).rejects.toMatchObject({ code: '23001' });
  });

  describe('refuses, and changes nothing,', () => {
    test('a database without the schema, when it is only to be checked', async () => {
      const own = fresh(database());
      await expectRefusal(requireCurrentSchema(own), /has no schema/, /run expunge migrate/);
      expect(await contents(own)).toBeNull();
    });

    test('a schema of somebody else', async () => {
      const own = fresh(database());
      await sql`CREATE SCHEMA ${sql.id(own.schema)}`.execute(own.db);
      await expectRefusal(requireCurrentSchema(own), /run expunge migrate/);
    });

    test('a database that is behind, when it is only to be checked, and then migrates it', async () => {
      const own = fresh(database());
      await migrate(own, current - 1);
      const before = await contents(own);
      await expectRefusal(
        requireCurrentSchema(own),
        new RegExp(`at version ${current - 1} and this program needs ${current}`),
        /run expunge migrate/,
      );
      expect(await contents(own)).toEqual(before);
      expect(await migrate(own)).toEqual({ applied: all.slice(-1) });
      await requireCurrentSchema(own);
    });

    test.each<[string, (own: Database) => Promise<unknown>, readonly RegExp[]]>([
      [
        'a database that is newer',
        ({ db, schema }) =>
          sql`INSERT INTO ${sql.id(schema, 'schema_migrations')} VALUES (${current + 1}, 'later', 'x')`.execute(db),
        [/newer than this program/, /roll forward/],
      ],
      [
        'a database that is newer and lacks a number of those',
        ({ db, schema }) =>
          sql`INSERT INTO ${sql.id(schema, 'schema_migrations')} VALUES (${current + 2}, 'later', 'x')`.execute(db),
        [new RegExp(`lacks migration ${current + 1}`), /roll forward/],
      ],
      [
        'a database whose first migration was changed',
        ({ db, schema }) =>
          sql`UPDATE ${sql.id(schema, 'schema_migrations')} SET checksum = 'x' WHERE number = 1`.execute(db),
        [/Migration 1 .* has another checksum/, /roll forward/],
      ],
      [
        'a database whose last migration was changed',
        ({ db, schema }) =>
          sql`UPDATE ${sql.id(schema, 'schema_migrations')} SET checksum = 'x' WHERE number = ${current}`.execute(db),
        [new RegExp(`Migration ${current} .* has another checksum`), /roll forward/],
      ],
      [
        'a database that lacks the first number',
        ({ db, schema }) => sql`DELETE FROM ${sql.id(schema, 'schema_migrations')} WHERE number = 1`.execute(db),
        [/lacks migration 1/, /roll forward/],
      ],
    ])('%s', async (_name, spoil, parts) => {
      const own = fresh(database());
      await migrate(own);
      await spoil(own);
      const before = await contents(own);
      await expectRefusal(requireCurrentSchema(own), ...parts);
      await expectRefusal(migrate(own), ...parts);
      expect(await contents(own)).toEqual(before);
    });

    test('what stands in the way of one of several migrations', async () => {
      const own = fresh(database());
      await sql`CREATE SCHEMA ${sql.id(own.schema)}`.execute(own.db);
      await sql`CREATE TABLE ${own.t.tombstones} (mine integer)`.execute(own.db);
      await expect(migrate(own)).rejects.toMatchObject({ code: '42P07' });
      await expectRefusal(requireCurrentSchema(own), /has no schema/);
      const { rows } = await sql`SELECT FROM pg_tables WHERE schemaname = ${own.schema}::text`.execute(own.db);
      expect(rows).toHaveLength(1);
    });
  });
});

describeWithPostgres('migrate, on a server', () => {
  let own: TestDatabase;
  beforeAll(async () => {
    own = await createTestDatabase();
  });
  afterAll(() => own.drop());

  test('several at once all succeed, and one of them applies', async () => {
    const handles = Array.from({ length: 4 }, () => openPostgres({ url: own.url }));
    try {
      const reports = await Promise.all(handles.map((handle) => migrate(handle)));
      expect(reports.filter(({ applied }) => applied.length > 0)).toEqual([{ applied: all }]);
      await Promise.all(handles.map((handle) => requireCurrentSchema(handle)));
    } finally {
      await Promise.all(handles.map((handle) => handle.close()));
    }
  });

  test('refuses a database that cannot store every character', async () => {
    const name = `expunge_test_${randomBytes(8).toString('hex')}`;
    const admin = new pg.Client({ connectionString: own.url });
    await admin.connect();
    await admin.query(`CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'`);
    const url = new URL(own.url);
    url.pathname = name;
    const handle = openPostgres({ url: url.href });
    try {
      await expectRefusal(migrate(handle), /stores text as SQL_ASCII/, /ENCODING 'UTF8'/);
      expect(await contents(handle)).toBeNull();
    } finally {
      await handle.close();
      await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
      await admin.end();
    }
  });
});
