/** Tests of what has to hold on either driver: once on PGlite, in memory, and once on PostgreSQL. */
import { afterAll, beforeAll, describe } from 'vitest';
import { type Database, tableNames } from '../../src/storage/database.js';
import { openPGlite } from '../../src/storage/pglite/pglite-database.js';
import { openPostgres } from '../../src/storage/postgres/postgres-database.js';
import { createTestDatabase, describeWithPostgres, type TestDatabase } from './postgres.js';

/**
 * `describe`, twice. `body` gets a function that gives the open, empty database of its driver; tests of one file share it,
 * and keep apart by schemas (`inSchema`). Starting PGlite takes seconds.
 */
export function describeOnBoth(name: string, body: (database: () => Database, kind: Database['kind']) => void): void {
  describe(`${name}, on PGlite`, () => {
    let database: Database;
    beforeAll(() => {
      database = openPGlite();
    });
    afterAll(() => database.close());
    body(() => database, 'pglite');
  });
  describeWithPostgres(`${name}, on PostgreSQL`, () => {
    let own: TestDatabase | undefined;
    let database: Database | undefined;
    beforeAll(async () => {
      own = await createTestDatabase();
      database = openPostgres({ url: own.url });
    });
    afterAll(async () => {
      await database?.close();
      await own?.drop();
    });
    body(() => database as Database, 'postgres');
  });
}

/** The same database, with the product's tables in another schema. */
export function inSchema(database: Database, schema: string): Database {
  return { ...database, schema, t: tableNames(schema) };
}
