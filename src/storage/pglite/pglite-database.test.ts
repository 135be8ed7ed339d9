import { setImmediate } from 'node:timers/promises';
import { inspect } from 'node:util';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Database, Queries } from '../database.js';
import { openPGlite } from './pglite-database.js';

let database: Database;
beforeAll(async () => {
  database = openPGlite();
  await sql`CREATE TABLE note (text text NOT NULL UNIQUE)`.execute(database.db);
});
afterAll(() => database.close());
afterEach(async () => {
  vi.unstubAllEnvs();
  await sql`DELETE FROM note`.execute(database.db);
});

const write = ({ db }: Queries, text: string): Promise<unknown> => sql`INSERT INTO note VALUES (${text})`.execute(db);

async function notes(): Promise<readonly string[]> {
  const { rows } = await sql<{ text: string }>`SELECT text FROM note ORDER BY text`.execute(database.db);
  return rows.map(({ text }) => text);
}

describe('a statement outside of the handle of a transaction', () => {
  test.each<[string, () => Promise<unknown>]>([
    ['a statement', () => sql`SELECT 1`.execute(database.db)],
    ['through aside', () => sql`SELECT 1`.execute(database.aside.db)],
    ['a transaction', () => database.transaction(() => Promise.resolve())],
    ['a transaction aside', () => database.aside.transaction(() => Promise.resolve())],
    [
      'from a function called within, after other work',
      async () => {
        await setImmediate();
        return notes();
      },
    ],
    ['from one branch of several', () => Promise.all([setImmediate(), notes()])],
    ['closing', () => database.close()],
  ])('is refused instead of hanging for ever: %s', async (_name, ask) => {
    const refused = { code: 'NESTED_QUERY', outcome: 'failed' };
    await database.transaction(async (tx) => {
      await write(tx, 'kept');
      await expect(ask()).rejects.toMatchObject(refused);
      // Nothing else has happened: the transaction goes on.
      await write(tx, 'kept too');
    });
    expect(await notes()).toEqual(['kept', 'kept too']);
  });

  test('rolls the transaction back where nobody catches the refusal', async () => {
    const nested = database.transaction(async (tx) => {
      await write(tx, 'lost');
      await notes();
    });
    await expect(nested).rejects.toMatchObject({ code: 'NESTED_QUERY' });
    expect(await notes()).toEqual([]);
  });

  test('waits and succeeds where it comes from other callers', async () => {
    const order: string[] = [];
    let others: Promise<unknown> = Promise.resolve();
    const started = new Promise<void>((resolve) => {
      others = Promise.all([
        database.transaction(async (tx) => {
          resolve();
          await setImmediate();
          await write(tx, 'first');
          order.push('first');
        }),
        write(database, 'second').then(() => order.push('second')),
        write(database.aside, 'third').then(() => order.push('third')),
        database.transaction((tx) => write(tx, 'fourth')).then(() => order.push('fourth')),
      ]);
    });
    await started;
    await others;
    expect(order).toEqual(['first', 'second', 'third', 'fourth']);
    expect(await notes()).toEqual(['first', 'fourth', 'second', 'third']);
  });

  test('succeeds where it was only started in the transaction and comes after its end', async () => {
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => (end = resolve));
    let later: Promise<unknown> = Promise.resolve();
    await database.transaction(async (tx) => {
      await write(tx, 'inside');
      later = ended.then(() => write(database, 'later'));
    });
    end();
    await later;
    expect(await notes()).toEqual(['inside', 'later']);
  });
});

test('an error of a statement does not carry the values of its parameters', async () => {
  await write(database, 'jane@example.com');
  const error: unknown = await sql`SELECT ${'jane@example.com'}::integer`.execute(database.db).catch((e: unknown) => e);
  expect(error).toMatchObject({ code: '22P02' });
  expect(error).not.toHaveProperty('params');
  expect(inspect(Object.entries(error as object))).not.toContain("'jane@example.com'");
});

describe('closing', () => {
  test('waits for those who have a turn, refuses those who come after, and may be repeated', async () => {
    const own = openPGlite();
    let begin = (): void => undefined;
    const begun = new Promise<void>((resolve) => (begin = resolve));
    const turn = own.transaction(async (tx) => {
      // Another database is none of this transaction's business.
      await write(database, 'there');
      begin();
      await setImmediate();
      return sql<{ one: number }>`SELECT 1 AS one`.execute(tx.db);
    });
    await begun;
    const closing = own.close();
    await expect(sql`SELECT 1`.execute(own.db)).rejects.toMatchObject({ code: 'EMBEDDED_DATABASE' });
    expect((await turn).rows).toEqual([{ one: 1 }]);
    await closing;
    await own.close();
    await expect(own.transaction(() => Promise.resolve())).rejects.toMatchObject({ code: 'EMBEDDED_DATABASE' });
    expect(await notes()).toEqual(['there']);
  });

  test('of one that was never used starts nothing', async () => {
    const own = openPGlite();
    await own.close();
    await expect(sql`SELECT 1`.execute(own.db)).rejects.toMatchObject({ code: 'EMBEDDED_DATABASE' });
  });
});

describe('in production', () => {
  test('it is refused, and says what to do', () => {
    vi.stubEnv('NODE_ENV', 'production');
    expect(() => openPGlite()).toThrow(
      expect.objectContaining({
        code: 'EMBEDDED_DATABASE',
        outcome: 'refused',
        message: expect.stringContaining('set EXPUNGE_DATABASE_URL to a PostgreSQL server') as string,
      }) as Error,
    );
  });

  test('it is opened where that is allowed by name', async () => {
    vi.stubEnv('NODE_ENV', 'production');
    await openPGlite({ allowInProduction: true }).close();
  });
});
