import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { inspect } from 'node:util';
import { sql } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase, describeWithPostgres, type TestDatabase } from '../../../test/support/postgres.js';
import type { Database, Queries } from '../database.js';
import { openPostgres, type PostgresOptions } from './postgres-database.js';

/** Runs `work` on a handle, and closes the handle whatever happens. */
async function using<T>(options: PostgresOptions, work: (database: Database) => Promise<T>): Promise<T> {
  const database = openPostgres(options);
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

async function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => expect.unreachable('it succeeded'),
    (error: unknown) => error,
  );
}

async function backend({ db }: Queries): Promise<number> {
  const { rows } = await sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`.execute(db);
  return rows[0]?.pid ?? expect.unreachable('no row');
}

/** A server on a free port of 127.0.0.1 that treats every connection as `greet` says. */
async function withServer<T>(greet: (socket: Socket) => void, work: (port: number) => Promise<T>): Promise<T> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    greet(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    return await work((server.address() as AddressInfo).port);
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}

describe('a server that cannot be reached', () => {
  const ask = (options: PostgresOptions): Promise<unknown> =>
    using(options, (database) => failure(sql`SELECT 1`.execute(database.db)));

  test('nobody listens', async () => {
    const port = await withServer(
      () => undefined,
      async (free) => free,
    );
    expect(await ask({ url: `postgres://somebody@127.0.0.1:${port}/shop` })).toMatchObject({
      code: 'DATABASE_UNAVAILABLE',
      outcome: 'unavailable',
      message: `The database at 127.0.0.1:${port}/shop cannot be reached (ECONNREFUSED): check that it runs and that EXPUNGE_DATABASE_URL is right, then run this again.`,
    });
  });

  test('nobody listens at any of the addresses of a host', async () => {
    const port = await withServer(
      () => undefined,
      async (free) => free,
    );
    expect(await ask({ url: `postgres://somebody@localhost:${port}/shop` })).toMatchObject({
      code: 'DATABASE_UNAVAILABLE',
      message: expect.stringContaining('(ECONNREFUSED)') as string,
    });
  });

  test('it accepts the connection and never answers', async () => {
    await withServer(
      () => undefined,
      async (port) => {
        const url = `postgres://somebody@127.0.0.1:${port}/shop`;
        expect(await ask({ url, connectTimeoutMs: 100 })).toMatchObject({
          code: 'DATABASE_UNAVAILABLE',
          message: expect.stringContaining('cannot be reached (NO_ANSWER)') as string,
        });
      },
    );
  });

  test('it hangs up at once', async () => {
    await withServer(
      (socket) => socket.end(),
      async (port) => {
        expect(await ask({ url: `postgres://somebody@127.0.0.1:${port}/shop` })).toMatchObject({
          code: 'DATABASE_UNAVAILABLE',
        });
      },
    );
  });

  test.each([
    ['refused', 'postgres://somebody:s3cr3t@127.0.0.1:1/shop'],
    ['a name that does not exist', 'postgres://somebody:s3cr3t@host.invalid/shop'],
    ['a certificate that does not exist', 'postgres://somebody:s3cr3t@127.0.0.1:1/shop?sslrootcert=/nowhere'],
    ['a port that is none', 'postgres://somebody:s3cr3t@127.0.0.1:port/shop'],
    ['a slash in the password', 'postgres://somebody:12/s3cr3t@127.0.0.1/shop'],
    ['a question mark in the password', 'postgres://somebody:12?s3cr3t@127.0.0.1/shop'],
    ['a slash after an @ in the password', 'postgres://somebody:x@127.0.0.1:1/s3cr3t@127.0.0.1/shop'],
    ['another kind of server', 'mysql://somebody:s3cr3t@127.0.0.1/shop'],
    ['a password that is badly encoded', 'postgres://somebody:s3cr3t%zz@127.0.0.1:1/shop'],
  ])('the password appears nowhere: %s', async (_name, url) => {
    const error = await ask({ url, connectTimeoutMs: 1000 }).catch((refused: unknown) => refused);
    expect(error).toMatchObject({ code: expect.stringMatching(/^DATABASE_(UNAVAILABLE|URL)$/) as string });
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain('s3cr3t');
  });

  test.each(['', 'shop', 'https://127.0.0.1/shop', 'postgres://somebody@127.0.0.1:port/shop'])(
    'an address that is none is refused before anything is tried: "%s"',
    (url) => {
      expect(() => openPostgres({ url })).toThrow(
        expect.objectContaining({ code: 'DATABASE_URL', outcome: 'usage' }) as Error,
      );
    },
  );
});

describeWithPostgres('a connection', () => {
  let own: TestDatabase;
  let admin: pg.Client;
  beforeAll(async () => {
    own = await createTestDatabase();
    admin = new pg.Client({ connectionString: own.url });
    await admin.connect();
  });
  afterAll(async () => {
    await admin?.end();
    await own?.drop();
  });

  /** Ends a backend once it does what `state` says, and waits until it is gone. */
  async function terminate(pid: number, state: 'active' | 'idle' | 'idle in transaction'): Promise<void> {
    await expect
      .poll(async () => {
        const { rows } = await admin.query<{ state: string }>('SELECT state FROM pg_stat_activity WHERE pid = $1', [
          pid,
        ]);
        return rows[0]?.state;
      })
      .toBe(state);
    await admin.query('SELECT pg_terminate_backend($1)', [pid]);
    await expect
      .poll(async () => (await admin.query('SELECT FROM pg_stat_activity WHERE pid = $1', [pid])).rowCount)
      .toBe(0);
  }

  test('that the server ends in mid-query is named, and not lent again', async () => {
    await using({ url: own.url, connections: 1 }, async (database) => {
      const pid = await backend(database);
      const [error] = await Promise.all([
        failure(sql`SELECT pg_sleep(60)`.execute(database.db)),
        terminate(pid, 'active'),
      ]);
      expect(error).toMatchObject({
        code: 'DATABASE_UNAVAILABLE',
        message: expect.stringMatching(/^The connection to the database at .* was lost \(57P01\): /) as string,
      });
      expect(await backend(database)).not.toBe(pid);
    });
  });

  test('that the server ends between two statements of a transaction is named, and not lent again', async () => {
    await using({ url: own.url, connections: 1 }, async (database) => {
      let pid = 0;
      const error = await failure(
        database.transaction(async (tx) => {
          pid = await backend(tx);
          await terminate(pid, 'idle in transaction');
          await sql`SELECT 1`.execute(tx.db);
        }),
      );
      expect(error).toMatchObject({
        code: 'DATABASE_UNAVAILABLE',
        message: expect.stringMatching(/lost \((57P01|ECONNRESET|EPIPE|CONNECTION_LOST)\)/) as string,
      });
      expect(await backend(database)).not.toBe(pid);
    });
  });

  test('that dies while idle in the pool disturbs nobody', async () => {
    await using({ url: own.url, connections: 1 }, async (database) => {
      const pid = await backend(database);
      await terminate(pid, 'idle');
      // The end of the old one may reach us only while the next statement is under way: then that one is told.
      await expect.poll(() => backend(database).catch(() => pid)).not.toBe(pid);
    });
  });

  test('whose server falls silent in mid-query is named once, without a second wait, and not lent again', async () => {
    const statements: string[] = [];
    const onStatement = (text: string): void => void statements.push(text);
    await using({ url: own.url, connections: 1, answerTimeoutMs: 1000, onStatement }, async (database) => {
      let pid = 0;
      const error = await failure(
        database.transaction(async (tx) => {
          pid = await backend(tx);
          await sql`SELECT pg_sleep(60)`.execute(tx.db);
        }),
      );
      expect(error).toMatchObject({
        code: 'DATABASE_UNAVAILABLE',
        message: expect.stringContaining('was lost (NO_ANSWER)') as string,
      });
      // A rollback behind the silent statement would wait as long again.
      expect(statements.at(-1)).toBe('SELECT pg_sleep(60)');
      expect(await backend(database)).not.toBe(pid);
    });
  });

  test('may take as long as it wants where the wait has no limit', async () => {
    await using({ url: own.url, answerTimeoutMs: 0 }, async (database) => {
      const { rows } = await sql<{ one: number }>`SELECT 1 AS one FROM pg_sleep(0.01)`.execute(database.db);
      expect(rows).toEqual([{ one: 1 }]);
    });
  });

  test.each([
    ['division by zero', () => sql`SELECT 1 / 0`, { code: '22012' }],
    ['a syntax error', () => sql`SELEC`, { code: '42601' }],
    ['a cancelled statement', () => sql`SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)`, { code: '57014' }],
    ['a parameter that the driver refuses in a plain Error', () => sql`SELECT ${circular()}::text`, { name: 'Error' }],
    [
      'a parameter that throws',
      () => sql`SELECT ${{ toJSON: () => (null as never)['x'] }}::jsonb`,
      { name: 'TypeError' },
    ],
  ])('outlives an error of the statement, which stays itself: %s', async (_name, statement, expected) => {
    await using({ url: own.url, connections: 1 }, async (database) => {
      const pid = await backend(database);
      const error = await failure(statement().execute(database.db));
      expect(error).toMatchObject(expected);
      expect(error).not.toMatchObject({ code: 'DATABASE_UNAVAILABLE' });
      expect(await backend(database)).toBe(pid);
    });
  });

  test('that does not become free in time is not called a server that is down', async () => {
    await using({ url: own.url, connections: 1, connectTimeoutMs: 1000 }, async (database) => {
      await database.transaction(async (tx) => {
        await backend(tx);
        expect(await failure(backend(database))).toMatchObject({
          code: 'DATABASE_UNAVAILABLE',
          message: expect.stringContaining('became free in time (POOL_BUSY)') as string,
        });
        // Renewals have one of their own.
        await backend(database.aside);
      });
    });
  });

  test.each([
    ['a database that does not exist', (url: URL) => (url.pathname += '_gone'), '3D000'],
    ['a role that does not exist', (url: URL) => (url.username = 'expunge_ownnobody'), '28000'],
  ])('is refused with the SQLSTATE of the server: %s', async (_name, spoil, code) => {
    const url = new URL(own.url);
    spoil(url);
    await using({ url: url.href }, async (database) => {
      expect(await failure(backend(database))).toMatchObject({
        code: 'DATABASE_UNAVAILABLE',
        message: expect.stringContaining(`cannot be reached (${code})`) as string,
      });
    });
  });

  test('after the end of the pool is a fault of the program, not of the server', async () => {
    const database = openPostgres({ url: own.url });
    await backend(database);
    await database.close();
    expect(await failure(backend(database))).not.toMatchObject({ code: 'DATABASE_UNAVAILABLE' });
  });

  /** The driver asks an object for its form in SQL, and gives up on one that answers with itself. */
  function circular(): unknown {
    const value = { toPostgres: (): unknown => value };
    return value;
  }
});
