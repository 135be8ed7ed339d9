import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { beforeAll, describe, expect, test } from 'vitest';
import { describeOnBoth, inSchema } from '../../test/support/both-databases.js';
import { type Database, recordset, uuids } from './database.js';

describeOnBoth('the handle', (database, kind) => {
  let own: Database;
  beforeAll(async () => {
    own = inSchema(database(), 'handle');
    await sql`CREATE SCHEMA handle`.execute(own.db);
    await sql`CREATE TABLE handle.note (text text PRIMARY KEY)`.execute(own.db);
  });

  async function one<T>(expression: ReturnType<typeof sql>): Promise<T> {
    const { rows } = await sql<{ value: T }>`SELECT ${expression} AS value`.execute(own.db);
    return rows[0]?.value ?? (null as T);
  }

  async function notes(): Promise<readonly string[]> {
    const { rows } = await sql<{ text: string }>`SELECT text FROM handle.note ORDER BY text`.execute(own.db);
    return rows.map(({ text }) => text);
  }

  test('says which driver it is, and where the database is', () => {
    expect(own.kind).toBe(kind);
    expect(own.location).toMatch(kind === 'pglite' ? /^memory$/ : /^[^/@]+:\d+\/expunge_test_[0-9a-f]+$/);
  });

  describe('a transaction', () => {
    test('gives back what its work returns, and has committed then', async () => {
      const result = await own.transaction(async (tx) => {
        await sql`INSERT INTO handle.note VALUES ('committed')`.execute(tx.db);
        return 'done';
      });
      expect(result).toBe('done');
      expect(await notes()).toContain('committed');
    });

    test('is rolled back by an exception, which stays itself', async () => {
      const fault = new Error('of the caller');
      const before = await notes();
      const failed = own.transaction(async (tx) => {
        await sql`INSERT INTO handle.note VALUES ('lost')`.execute(tx.db);
        throw fault;
      });
      await expect(failed).rejects.toBe(fault);
      expect(await notes()).toEqual(before);
    });

    test('is rolled back by a statement that fails, with the SQLSTATE and the constraint', async () => {
      const before = await notes();
      const failed = own.transaction(async (tx) => {
        await sql`INSERT INTO handle.note VALUES ('lost')`.execute(tx.db);
        await sql`INSERT INTO handle.note VALUES ('lost')`.execute(tx.db);
      });
      await expect(failed).rejects.toMatchObject({ code: '23505', constraint: 'note_pkey' });
      expect(await notes()).toEqual(before);
    });

    test('whose failed statement is ignored does not pretend to have committed', async () => {
      const before = await notes();
      const failed = own.transaction(async (tx) => {
        await sql`INSERT INTO handle.note VALUES ('lost')`.execute(tx.db);
        await sql`SELECT 1 / 0`.execute(tx.db).catch(() => undefined);
      });
      await expect(failed).rejects.toMatchObject({ code: 'TRANSACTION_ABORTED', outcome: 'failed' });
      expect(await notes()).toEqual(before);
      await own.transaction(() => Promise.resolve());
    });

    test('reads committed rows, whatever the default of the server is', async () => {
      await own.transaction(async (tx) => {
        const { rows } = await sql`SELECT current_setting('transaction_isolation') AS level`.execute(tx.db);
        expect(rows).toEqual([{ level: 'read committed' }]);
      });
    });

    test('can be had aside', async () => {
      await own.aside.transaction((tx) => sql`INSERT INTO handle.note VALUES ('aside')`.execute(tx.db));
      expect(await notes()).toContain('aside');
    });
  });

  test('counts the rows that a statement changed', async () => {
    await sql`CREATE TABLE handle.many (n integer)`.execute(own.db);
    const { numAffectedRows } = await sql`INSERT INTO handle.many SELECT generate_series(1, ${3}::integer)`.execute(
      own.db,
    );
    expect(numAffectedRows).toBe(3n);
    expect((await sql`UPDATE handle.many SET n = 0 WHERE n > 1`.execute(own.db)).numAffectedRows).toBe(2n);
  });

  describe('parses alike:', () => {
    test.each<[string, ReturnType<typeof sql>, unknown]>([
      ['bigint', sql`0::bigint`, 0],
      ['a large bigint', sql`9007199254740991::bigint`, Number.MAX_SAFE_INTEGER],
      ['a large negative bigint', sql`-9007199254740991::bigint`, Number.MIN_SAFE_INTEGER],
      ['count(*)', sql`count(*)`, 1],
      ['no bigint', sql`NULL::bigint`, null],
      ['integer', sql`-7::integer`, -7],
      ['numeric, which may be larger than any number', sql`12345678901234567890.5::numeric`, '12345678901234567890.5'],
      ['boolean', sql`true`, true],
      ['text', sql`'ä'::text`, 'ä'],
      ['uuid', sql`'00000000-0000-7000-8000-00000000000b'::uuid`, '00000000-0000-7000-8000-00000000000b'],
      ['jsonb', sql`'{"a": [1, null, "x"]}'::jsonb`, { a: [1, null, 'x'] }],
      ['a text in jsonb', sql`'"x"'::jsonb`, 'x'],
      ['timestamptz', sql`'2024-02-29 23:59:59.123+00'::timestamptz`, new Date('2024-02-29T23:59:59.123Z')],
      [
        'timestamptz with microseconds',
        sql`'2024-02-29 12:00:00.123456+02'::timestamptz`,
        new Date('2024-02-29T10:00:00.123Z'),
      ],
      ['timestamptz before 1970', sql`'1912-06-23 00:00:00.5+00'::timestamptz`, new Date('1912-06-23T00:00:00.500Z')],
      [
        'timestamptz of a year with five digits',
        sql`'12024-01-01 00:00:00+00'::timestamptz`,
        new Date('+012024-01-01T00:00:00Z'),
      ],
      ['timestamptz without end', sql`'infinity'::timestamptz`, Infinity],
      ['no timestamptz', sql`NULL::timestamptz`, null],
    ])('%s', async (_name, expression, expected) => {
      expect(await one(expression)).toEqual(expected);
      // The other protocol, which a statement with parameters uses.
      const { rows } = await sql`SELECT ${expression} AS value WHERE ${1}::integer = 1`.execute(own.db);
      expect(rows).toEqual([{ value: expected }]);
    });

    test.each(['9007199254740992', '-9223372036854775808'])(
      'a bigint that a number would round is refused: %s',
      async (text) => {
        await expect(one(sql`${text}::bigint`)).rejects.toMatchObject({ code: 'BIGINT_RANGE' });
        expect(await one(sql`1::bigint`)).toBe(1);
      },
    );

    test('timestamptz in a session with another time zone', async () => {
      await own.transaction(async (tx) => {
        await sql`SET LOCAL TimeZone = 'Asia/Kathmandu'`.execute(tx.db);
        const { rows } = await sql`SELECT '2024-01-01 00:00:00.25+00'::timestamptz AS at`.execute(tx.db);
        expect(rows).toEqual([{ at: new Date('2024-01-01T00:00:00.250Z') }]);
      });
    });
  });

  describe('takes alike:', () => {
    test.each<[string, ReturnType<typeof sql>, unknown]>([
      ['null', sql`${null}::text`, null],
      ['a Date', sql`${new Date('2024-02-29T23:59:59.123Z')}::timestamptz`, new Date('2024-02-29T23:59:59.123Z')],
      ['a number as bigint', sql`${Number.MAX_SAFE_INTEGER}::bigint`, Number.MAX_SAFE_INTEGER],
      ['a boolean', sql`${false}::boolean`, false],
      ['a text that looks like JSON', sql`${'{"a":1}'}::text`, '{"a":1}'],
      ['JSON as text', sql`${'{"a":1}'}::text::jsonb`, { a: 1 }],
    ])('%s', async (_name, expression, expected) => {
      expect(await one(expression)).toEqual(expected);
    });

    test('many rows as one parameter', async () => {
      const rows = [
        { id: 1, name: 'O\'Neil \\ "x" ä😀', data: { list: [1, null] } },
        { id: 2, name: null, data: 'text' },
        { id: 3, data: undefined },
      ];
      const found = await sql`
        SELECT * FROM jsonb_to_recordset(${recordset(rows)}) AS r (id bigint, name text, data jsonb)
         ORDER BY id`.execute(own.db);
      expect(found.rows).toEqual([rows[0], rows[1], { id: 3, name: null, data: null }]);
    });

    test('no rows', async () => {
      const found = await sql`SELECT * FROM jsonb_to_recordset(${recordset([])}) AS r (id bigint)`.execute(own.db);
      expect(found.rows).toEqual([]);
    });

    test('many ids as one parameter, or none', async () => {
      const ids = [randomUUID(), randomUUID()].sort();
      const matching = (wanted: readonly string[]): Promise<unknown> =>
        one(sql`ARRAY(SELECT v::text FROM unnest(${uuids(ids)}) AS v WHERE v = ANY (${uuids(wanted)}) ORDER BY v)`);
      expect(await matching(ids)).toEqual(ids);
      expect(await matching([])).toEqual([]);
      await expect(matching(['not an id'])).rejects.toMatchObject({ code: '22P02' });
    });
  });

  test('runs a script of several statements', async () => {
    await sql.raw(`CREATE TABLE handle.a (n integer); INSERT INTO handle.a VALUES (1);`).execute(own.db);
    expect(await one(sql`(SELECT n FROM handle.a)`)).toBe(1);
  });
});
