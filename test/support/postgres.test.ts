import pg from 'pg';
import { expect, test } from 'vitest';
import { createTestDatabase, describeWithPostgres, postgresServer } from './postgres.js';
import { availability } from './test-server.js';

test('a test without its server is skipped, and fails where skips are forbidden', () => {
  const url = { EXPUNGE_TEST_POSTGRES_URL: 'postgres://postgres@127.0.0.1:5432/postgres' };
  expect(availability(postgresServer, url)).toBe('run');
  expect(availability(postgresServer, { ...url, EXPUNGE_TEST_FORBID_SKIPS: '1' })).toBe('run');
  expect(availability(postgresServer, {})).toBe('skip');
  expect(availability(postgresServer, { EXPUNGE_TEST_POSTGRES_URL: '' })).toBe('skip');
  expect(availability(postgresServer, { EXPUNGE_TEST_FORBID_SKIPS: '1' })).toBe('fail');
});

describeWithPostgres('createTestDatabase', () => {
  test('gives an empty UTF-8 database of its own, and drops it with a connection still open', async () => {
    const [first, second] = await Promise.all([createTestDatabase(), createTestDatabase()]);
    const open = new pg.Client({ connectionString: first.url });
    open.on('error', () => undefined);
    const ended = new Promise<void>((resolve) => open.once('end', resolve));
    try {
      expect(first.url).not.toBe(second.url);
      await open.connect();
      const state = await open.query<{ tables: string; encoding: string }>(
        `SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace) AS tables,
                current_setting('server_encoding') AS encoding`,
      );
      expect(state.rows).toEqual([{ tables: '0', encoding: 'UTF8' }]);
    } finally {
      await first.drop();
      await first.drop();
      await second.drop();
    }
    await ended;
    const dropped = new pg.Client({ connectionString: first.url });
    await expect(dropped.connect()).rejects.toMatchObject({ code: '3D000' });
  });
});
