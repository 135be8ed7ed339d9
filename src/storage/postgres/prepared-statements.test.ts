import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createTestDatabase, describeWithPostgres, type TestDatabase } from '../../../test/support/postgres.js';
import { openPostgres } from './postgres-database.js';

const KEPT = sql<{ count: number }>`SELECT count(*)::integer AS count FROM pg_prepared_statements`;

describeWithPostgres('prepared statements', () => {
  let test_: TestDatabase;
  beforeAll(async () => {
    test_ = await createTestDatabase();
  });
  afterAll(() => test_.drop());

  function open(url: string) {
    const database = openPostgres({ url, connections: 1 });
    onTestFinished(() => database.close());
    return database;
  }

  /** Like a connection pooler, it greets with a process number of its own. */
  async function pooled(): Promise<string> {
    const to = new URL(test_.url);
    const proxy = createServer((client) => {
      const server = connect(Number(to.port || 5432), to.hostname);
      client.pipe(server);
      server.on('data', (data: Buffer) => {
        const key = data.indexOf(Buffer.from([0x4b, 0, 0, 0, 12]));
        if (key !== -1) data.writeInt32BE(4_711, key + 5);
        client.write(data);
      });
      for (const socket of [client, server]) socket.on('error', () => undefined);
      server.on('close', () => client.destroy());
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    onTestFinished(() => void proxy.close());
    const url = new URL(test_.url);
    url.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    return url.href;
  }

  async function keptAfterTwo(url: string): Promise<number | undefined> {
    const { db } = open(url);
    for (const value of [1, 2]) await sql`SELECT ${value}::integer`.execute(db);
    return (await KEPT.execute(db)).rows[0]?.count;
  }

  test('a statement is prepared once in a session of its own', async () => {
    expect(await keptAfterTwo(test_.url)).toBe(1);
  });

  test('nothing is left in a session that a pooler hands on to others', async () => {
    expect(await keptAfterTwo(await pooled())).toBe(0);
  });

  test('a column that is added meanwhile costs a connection, and no more', async () => {
    const { db } = open(test_.url);
    await sql`CREATE TABLE growing (id integer)`.execute(db);
    const read = () => sql`SELECT * FROM growing WHERE id = ${1}::integer`.execute(db);
    await read();
    await sql`ALTER TABLE growing ADD COLUMN name text`.execute(db);
    await expect(read()).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' });
    expect((await read()).rows).toEqual([]);
  });
});
