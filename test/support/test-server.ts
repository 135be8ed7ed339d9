/**
 * What happens to a test whose server is not there: it is skipped by name, with the command that starts the server. A run
 * that must not skip (`EXPUNGE_TEST_FORBID_SKIPS=1`) fails instead.
 */
import { describe, test } from 'vitest';

/** A kind of server that tests talk to. */
export interface TestServer {
  /** The product's own name, for people. */
  readonly name: string;
  /** The environment variable that holds its URL; unset where there is no server. */
  readonly variable: string;
  /** The command that starts one. */
  readonly start: string;
}

export type Availability = 'run' | 'skip' | 'fail';

/** Whether tests that need `server` run, are skipped, or fail for want of it. */
export function availability(server: TestServer, env: Readonly<Record<string, string | undefined>>): Availability {
  if (env[server.variable]) return 'run';
  return env['EXPUNGE_TEST_FORBID_SKIPS'] === '1' ? 'fail' : 'skip';
}

/** `describe` for tests that need `server`. */
export function describeWithServer(server: TestServer, name: string, body: () => void): void {
  const missing = `${name} [no ${server.name}: start it with \`${server.start}\`, or set ${server.variable}]`;
  switch (availability(server, process.env)) {
    case 'run':
      describe(name, body);
      return;
    case 'skip':
      describe.skip(missing, body);
      return;
    case 'fail':
      describe(missing, () => {
        test('its server is there', () => {
          throw new Error(`${server.name} is not there, and this run forbids skips.`);
        });
      });
  }
}
