/**
 * PostgreSQL for tests: a database of its own for whoever asks, on the server that `global-setup.ts` found or started.
 *
 * A file that needs the server opens with `describeWithPostgres` in place of `describe`. Where no server could be had,
 * its tests are then skipped by name, with the command that starts one; under `EXPUNGE_TEST_FORBID_SKIPS=1` they fail.
 */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { describeWithServer, type TestServer } from './test-server.js';

export const postgresServer: TestServer = {
  name: 'PostgreSQL',
  variable: 'EXPUNGE_TEST_POSTGRES_URL',
  start: 'scripts/services up',
};

export interface TestDatabase {
  /** Connection string of the new, empty database, as the server's superuser. */
  readonly url: string;
  /** Drops the database, with the connections that are still open to it. Safe to call twice. */
  drop(): Promise<void>;
}

/** `describe` for tests that need PostgreSQL. */
export function describeWithPostgres(name: string, body: () => void): void {
  describeWithServer(postgresServer, name, body);
}

/**
 * Creates an empty UTF-8 database with a random name (`expunge_test_…`). The caller drops it, normally in `afterAll`.
 *
 * @throws Error where no server is known.
 */
export async function createTestDatabase(): Promise<TestDatabase> {
  const server = process.env[postgresServer.variable];
  if (!server) {
    throw new Error(`No PostgreSQL server is known to this test: start one with \`${postgresServer.start}\`.`);
  }
  const name = `expunge_test_${randomBytes(8).toString('hex')}`;
  // template1 may be in use, or hold what somebody put there; template0 is neither, and takes any encoding.
  await onServer(server, `CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'UTF8'`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    drop: () => onServer(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
