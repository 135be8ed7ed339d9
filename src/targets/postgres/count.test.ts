import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithPostgres } from '../../../test/support/postgres.js';
import {
  countOf,
  createTargetDatabase,
  eraseAll,
  quiet,
  subjectsById,
  type TargetDatabase,
} from '../../../test/support/postgres-target.js';
import { TargetBlockedError } from '../target-error.js';

describeWithPostgres('counting in PostgreSQL', () => {
  let database: TargetDatabase;
  beforeAll(async () => {
    database = await createTargetDatabase();
  });
  afterAll(() => database.drop());

  it.each([
    [
      'int',
      '42',
      ['042', ' 42', '42 ', '4.2e1', '42.0', '+42', '0x2a', 'abc', '99999999999999999999', '2147483648', 'NaN'],
    ],
    ['bigint', '9223372036854775807', ['9223372036854775808', '-9223372036854775809']],
    ['smallint', '-7', ['-07', '−7', '32768']],
    ['numeric(12,2)', '42', ['042', '42.00', '4.2e1', 'NaN', 'Infinity', '42.001']],
    [
      'uuid',
      '0189d0a5-7a3b-7c60-8f4e-3b1f2a5d6c7e',
      ['0189d0a57a3b7c608f4e3b1f2a5d6c7e', '{0189d0a5-7a3b-7c60-8f4e-3b1f2a5d6c7e}', 'abc'],
    ],
    ['text', 'u/1', ['u/10', 'U/1', 'u_1', 'u/1 ', 'u/1\0', 'u/1\ud800', '\ufffd']],
    ['varchar(3)', 'abc', ['abcd', 'ab', 'abc ']],
    ['char(5)', 'ab', ['ab ', 'abc', 'ab   ', 'AB']],
  ])('WF-14: %s: %j matches itself and nothing else', async (type, value, others) => {
    const table = `key_${type.replace(/\W+/g, '_')}`;
    await database.query(`CREATE TABLE ${table} (id ${type}); `);
    await database.query(`INSERT INTO ${table} SELECT $1::${type} FROM generate_series(1, 2)`, [value]);
    if (type === 'text') await database.query(`INSERT INTO ${table} VALUES ('u/1' || U&'\\FFFD')`);
    const target = database.open({ tables: { [table]: { key: { id: 'id' }, action: 'delete' } } });
    expect((await countOf(target, { id: value }))[table]?.matched).toBe(2);
    for (const other of others)
      expect([other, (await countOf(target, { id: other }))[table]?.matched]).toEqual([other, 0]);
    const run = await eraseAll(
      target,
      subjectsById(Object.fromEntries([...others, value].map((id, n) => [`r${n}`, id]))),
    );
    expect(run.errors.size).toBe(0);
    expect(run.reported).toEqual({ [table]: 2 });
  });

  it("WF-14: compares in the column's own way: a domain, citext outside of the search path, a collation that ignores case", async () => {
    await database.query(`
      CREATE SCHEMA extensions; CREATE EXTENSION citext SCHEMA extensions;
      CREATE DOMAIN customer_number AS bigint CHECK (value > 0);
      CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      CREATE TABLE odd (a customer_number, b extensions.citext, c text COLLATE folded);
      INSERT INTO odd VALUES (1, 'Ann@X', 'Ann@X'), (2, 'bob@x', 'bob@x')`);
    const on = (column: string) => database.open({ tables: { odd: { key: { [column]: 'id' }, action: 'delete' } } });
    expect((await countOf(on('a'), { id: '1' })).odd?.matched).toBe(1);
    expect((await countOf(on('b'), { id: 'ann@x' })).odd?.matched).toBe(1);
    expect((await countOf(on('c'), { id: 'ann@x' })).odd?.matched).toBe(1);
    await eraseAll(on('b'), subjectsById({ a: 'ann@x' }));
    expect(await database.rows('odd')).toBe(1);
  });

  it('WF-3: a missing or empty identifier is an error of that subject, never a count of zero', async () => {
    await database.query('CREATE TABLE two (a text, b text); INSERT INTO two VALUES ($$x$$, $$$$)');
    const target = database.open({ tables: { two: { key: { a: 'id', b: 'other' }, action: 'delete' } } });
    const batch = new Map([
      ['none', { identifiers: { id: 'x' }, locators: {} }],
      ['empty', { identifiers: { id: 'x', other: '' }, locators: {} }],
      ['both', { identifiers: { id: 'x', other: 'y' }, locators: {} }],
    ]);
    for (const answers of [await target.count(batch, quiet()), await target.revoke(batch, quiet())]) {
      expect(answers.get('none')).toBeInstanceOf(TargetBlockedError);
      expect((answers.get('empty') as TargetBlockedError).message).toContain('needs the identifier "other"');
      expect(answers.get('both')).toBeInstanceOf(Array);
    }
  });

  it('WF-21: reports kept rows with the day until which the last of them stays', async () => {
    const keep = { basis: 'tax law', from: 'day', for: 'P10Y' } as const;
    await database.query(`
      CREATE TABLE bill (no int PRIMARY KEY, id int, day date, street text);
      CREATE TABLE bill_line (bill int REFERENCES bill, what text);
      CREATE TABLE stamped (id int, day timestamptz);
      INSERT INTO bill VALUES (1, 1, '2020-02-29', 'a'), (2, 1, '2021-05-01', 'b'), (3, 2, NULL, 'c'), (4, 2, '2020-01-01', 'd'), (5, 3, 'infinity', 'e');
      INSERT INTO bill_line SELECT 1 + n % 5, 'x' FROM generate_series(1, 10) n;
      INSERT INTO stamped VALUES (1, '2020-12-31 23:30:00-05'), (1, '2019-01-01')`);
    const target = database.open({
      tables: {
        bill: { key: { id: 'id' }, action: 'anonymize', set: { street: null }, keep },
        bill_line: { through: 'bill', action: 'retain', keep },
        stamped: { key: { id: 'id' }, action: 'retain', keep },
      },
    });
    expect(await target.describe(quiet())).toEqual([
      { place: 'bill', action: 'pseudonymize', basis: 'tax law' },
      { place: 'bill_line', action: 'retain', basis: 'tax law' },
      { place: 'stamped', action: 'retain', basis: 'tax law' },
    ]);
    expect(await countOf(target, { id: '1' })).toMatchObject({
      bill: { matched: 2, retained: 0, retainedUntil: null },
      bill_line: { matched: 0, retained: 4, retainedUntil: '2031-05-01' },
      stamped: { matched: 0, retained: 2, retainedUntil: '2031-01-01' },
    });
    await eraseAll(target, subjectsById({ a: '1', b: '2', c: '3' }));
    expect(await countOf(target, { id: '1' })).toMatchObject({
      bill: { matched: 0, retained: 2, retainedUntil: '2031-05-01' },
    });
    // Of one row nobody knows when it began, and one stays for ever.
    expect(await countOf(target, { id: '2' })).toMatchObject({
      bill: { retained: 2, retainedUntil: null },
      bill_line: { retained: 4, retainedUntil: null },
    });
    expect(await countOf(target, { id: '3' })).toMatchObject({ bill: { retained: 1, retainedUntil: null } });
    expect(await countOf(target, { id: '4' })).toMatchObject({ bill: { retained: 0, retainedUntil: null } });
  });

  it('WF-16: counts the rows of anybody whose parent does not exist, and a row of several parents once', async () => {
    await database.query(`
      CREATE TABLE trip (no int, id int); CREATE TABLE leg (trip int, what text);
      INSERT INTO trip VALUES (1, 1), (1, 1), (2, 2); INSERT INTO leg VALUES (1, 'a'), (1, 'b'), (2, 'c'), (7, 'lost'), (NULL, 'free')`);
    const target = database.open({
      tables: {
        trip: { key: { id: 'id' }, action: 'delete' },
        leg: { through: { table: 'trip', on: { trip: 'no' } }, action: 'delete' },
      },
    });
    expect((await countOf(target, { id: '1' })).leg).toMatchObject({ matched: 2, parentless: 1 });
    expect((await countOf(target, { id: '1' })).trip).toMatchObject({ matched: 2, parentless: null });
    const run = await eraseAll(target, subjectsById({ a: '1' }));
    expect(run.reported).toEqual({ trip: 2, leg: 2 });
    expect((await countOf(target, { id: '1' })).leg).toMatchObject({ matched: 0, parentless: 1 });
  });

  it('WF-16: looks for parentless rows wherever a foreign key does not exclude them', async () => {
    await database.query(`
      CREATE TABLE top (no int PRIMARY KEY, id int);
      CREATE TABLE below (top int REFERENCES top ON DELETE CASCADE);
      INSERT INTO top VALUES (1, 1), (2, 2); INSERT INTO below VALUES (1), (2);
      CREATE FUNCTION keep_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER lie BEFORE DELETE ON below FOR EACH ROW EXECUTE FUNCTION keep_row();
      DELETE FROM top WHERE no = 2`);
    const target = database.open({
      tables: { top: { key: { id: 'id' }, action: 'delete' }, below: { through: 'top', action: 'delete' } },
    });
    expect((await countOf(target, { id: '1' })).below).toMatchObject({ matched: 1, parentless: 1 });
  });
});
