import { defineConfig } from 'vitest/config';

/** Where a run leaves its counts for whoever asked (`.ci/run` adds them up). */
const reports = process.env['EXPUNGE_TEST_REPORTS'];

export default defineConfig({
  test: {
    pool: 'forks',
    maxWorkers: 2,
    globalSetup: ['test/support/global-setup.ts'],
    reporters: reports ? ['default', ['json', { outputFile: `${reports}/${process.pid}.json` }]] : ['default'],
    projects: [
      {
        extends: true,
        test: {
          name: 'quick',
          include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: ['**/*.long.test.ts', 'node_modules/**'],
          // A limit for what hangs. Slow machines may not fail, and no test waits for time to pass.
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'long',
          include: ['src/**/*.long.test.ts', 'test/**/*.long.test.ts'],
          testTimeout: 20 * 60_000,
          hookTimeout: 20 * 60_000,
        },
      },
    ],
  },
});
