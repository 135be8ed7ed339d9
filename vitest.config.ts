import { defineConfig } from 'vitest/config';

/** Where a run leaves its counts for whoever asked (`.ci/run` adds them up). */
const reports = process.env['EXPUNGE_TEST_REPORTS'];

export default defineConfig({
  test: {
    maxWorkers: 2,
    // Once a run, not once a project: the projects therefore do not extend this.
    globalSetup: ['test/support/global-setup.ts'],
    reporters: reports ? ['default', ['json', { outputFile: `${reports}/${process.pid}.json` }]] : ['default'],
    projects: [
      {
        test: {
          name: 'quick',
          pool: 'forks',
          include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: ['**/*.long.test.ts', 'node_modules/**'],
          // A limit for what hangs. Slow machines may not fail, and no test waits for time to pass.
          testTimeout: 3 * 60_000,
          hookTimeout: 3 * 60_000,
        },
      },
      {
        test: {
          name: 'long',
          pool: 'forks',
          include: ['src/**/*.long.test.ts', 'test/**/*.long.test.ts'],
          testTimeout: 20 * 60_000,
          hookTimeout: 20 * 60_000,
        },
      },
    ],
  },
});
