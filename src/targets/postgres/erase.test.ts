import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, expect, it } from 'vitest';
import { describeWithPostgres } from '../../../test/support/postgres.js';
import {
  countOf,
  createTargetDatabase,
  eraseAll,
  failureOf,
  quiet,
  subjectsById,
  type TargetDatabase,
} from '../../../test/support/postgres-target.js';
import type { JsonValue } from '../../storage/json.js';
import { TargetFailedError } from '../target-error.js';
import type { EraseProgress } from '../target.js';

const shop = `
CREATE TABLE customer (customer_id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE invoice (invoice_id int PRIMARY KEY, customer_id int REFERENCES customer, billing_address text, invoice_date date);
CREATE INDEX ON invoice (customer_id);
CREATE TABLE invoice_line (line_id int PRIMARY KEY, invoice_id int NOT NULL REFERENCES invoice, what text);
CREATE INDEX ON invoice_line (invoice_id);
CREATE TABLE visit (no int PRIMARY KEY, customer_id int);
CREATE TABLE search_log (visit_no int, term text);
INSERT INTO customer SELECT n, 'name ' || n FROM generate_series(1, 20) n;
INSERT INTO invoice SELECT n, 1 + n % 20, 'street ' || n, date '2020-01-01' + n FROM generate_series(1, 100) n;
INSERT INTO invoice_line SELECT n, 1 + n % 100, 'thing' FROM generate_series(1, 500) n;
INSERT INTO visit SELECT n, 1 + n % 20 FROM generate_series(1, 60) n;
INSERT INTO search_log SELECT 1 + n % 60, 'word ' || n FROM generate_series(1, 240) n;
ANALYZE;`;

const everything = {
  customer: { key: { customer_id: 'id' }, action: 'delete' },
  invoice: { key: { customer_id: 'id' }, action: 'delete' },
  invoice_line: { through: 'invoice', action: 'delete' },
  visit: { key: { customer_id: 'id' }, action: 'delete' },
  search_log: { through: { table: 'visit', on: { visit_no: 'no' } }, action: 'delete' },
} as const;

describeWithPostgres('an erase in PostgreSQL', () => {
  let database: TargetDatabase;
  afterEach(() => database.drop());

  it("WF-12: deletes every row of the subjects, and nobody else's, in the order of the keys", async () => {
    database = await createTargetDatabase(shop);
    const target = database.open({ tables: everything });
    const places = (await target.describe(quiet())).map(({ place }) => place);
    expect(places.indexOf('invoice_line')).toBeLessThan(places.indexOf('invoice'));
    expect(places.indexOf('invoice')).toBeLessThan(places.indexOf('customer'));
    const before = await countOf(target, { id: '2' });
    expect(before.invoice_line?.matched).toBe(25);
    const run = await eraseAll(target, subjectsById({ a: '1', b: '2', none: '999' }));
    expect(run.errors.size).toBe(0);
    expect(run.slices).toBe(1);
    expect(run.reported).toEqual({ customer: 2, invoice: 10, invoice_line: 50, visit: 6, search_log: 24 });
    for (const { matched, parentless } of Object.values(await countOf(target, { id: '2' }))) {
      expect(matched).toBe(0);
      expect(parentless ?? 0).toBe(0);
    }
    expect(await database.rows('invoice_line')).toBe(450);
    expect(await database.rows('search_log')).toBe(216);
  });

  it('WF-15: keeps to the limit over all subjects together, down to one row', async () => {
    for (const limit of [1, 3, 7, 40]) {
      database = await createTargetDatabase(shop);
      const target = database.open({ tables: everything });
      const run = await eraseAll(target, subjectsById({ a: '1', b: '2' }), { limit });
      expect(run.errors.size).toBe(0);
      expect(run.largest).toBeLessThanOrEqual(limit);
      expect(run.reported).toEqual({ customer: 2, invoice: 10, invoice_line: 50, visit: 6, search_log: 24 });
      if (limit < 40) await database.drop();
    }
  });

  it('WF-19: a trigger that returns NULL on a child without a foreign key keeps its parent, and is named', async () => {
    database = await createTargetDatabase(`${shop}
      CREATE FUNCTION lie() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER lie BEFORE DELETE ON search_log FOR EACH ROW WHEN (old.visit_no = 1) EXECUTE FUNCTION lie();`);
    const target = database.open({ tables: everything });
    const run = await eraseAll(target, subjectsById({ liar: '2', honest: '3' }));
    const error = run.errors.get('liar')!;
    expect(error).toBeInstanceOf(TargetFailedError);
    expect(error.message).toContain('"operational", place "search_log": 4 rows are left');
    expect(error.detail).toMatchObject({ target: 'operational', place: 'search_log' });
    expect([...run.errors.keys()]).toEqual(['liar']);
    expect(await database.rows('visit WHERE no = 1')).toBe(1);
    expect(await database.rows('visit WHERE customer_id = 2')).toBe(3);
    expect(await database.rows('customer WHERE customer_id = 3')).toBe(0);
    expect((await countOf(target, { id: '2' })).search_log?.matched).toBe(12);
  });

  it('WF-14: composite keys, partitions, quoted names and several schemas, over foreign keys of all of these', async () => {
    database = await createTargetDatabase(`
      CREATE SCHEMA "Odd Schema";
      CREATE TABLE "Odd Schema"."Per""son" ("Tenant" uuid, "No." bigint, "select" text, PRIMARY KEY ("Tenant", "No."));
      CREATE TABLE trip (day date, tenant uuid, person bigint, no int, PRIMARY KEY (day, no),
        FOREIGN KEY (tenant, person) REFERENCES "Odd Schema"."Per""son") PARTITION BY RANGE (day);
      CREATE TABLE trip_old PARTITION OF trip FOR VALUES FROM (MINVALUE) TO ('2020-01-01');
      CREATE TABLE trip_new PARTITION OF trip FOR VALUES FROM ('2020-01-01') TO (MAXVALUE);
      CREATE TABLE leg (day date, no int, leg int, FOREIGN KEY (day, no) REFERENCES trip ON DELETE CASCADE) PARTITION BY LIST (leg);
      CREATE TABLE leg_1 PARTITION OF leg FOR VALUES IN (1);
      CREATE TABLE leg_2 PARTITION OF leg DEFAULT;
      INSERT INTO "Odd Schema"."Per""son" SELECT md5(t::text)::uuid, n, 'x' FROM generate_series(1, 3) t, generate_series(1, 4) n;
      INSERT INTO trip SELECT date '2018-01-01' + 300 * d, md5(t::text)::uuid, n, t * 100 + n * 10 + d
        FROM generate_series(1, 3) t, generate_series(1, 4) n, generate_series(1, 4) d;
      INSERT INTO leg SELECT day, no, l FROM trip, generate_series(1, 3) l`);
    const target = database.open({
      tables: {
        trip: { key: { tenant: 'tenant', person: 'id' }, action: 'delete' },
        leg: { through: 'trip', action: 'delete' },
      },
      schemas: { 'Odd Schema': { 'Per"son': { key: { Tenant: 'tenant', 'No.': 'id' }, action: 'delete' } } },
    });
    const [row] = await database.query(`SELECT md5('2')::uuid::text AS tenant`);
    const identifiers = { tenant: String(row?.tenant), id: '3' };
    for (const limit of [2, 1000]) {
      const subject = { identifiers: { ...identifiers, id: limit === 2 ? '3' : '4' }, locators: {} };
      const run = await eraseAll(target, new Map([['a', subject]]), { limit });
      expect([...run.errors.values()]).toEqual([]);
      expect(run.largest).toBeLessThanOrEqual(limit);
      expect(run.reported).toEqual({ 'Odd Schema.Per"son': 1, trip: 4, leg: 12 });
    }
    expect(await database.rows('leg')).toBe(120);
    expect(await database.rows('trip')).toBe(40);
    expect(await database.rows('"Odd Schema"."Per""son"')).toBe(10);
  });

  it('WF-21: one row, two people: each rule masks its own side', async () => {
    database = await createTargetDatabase(`
      CREATE TABLE customer (id int PRIMARY KEY);
      CREATE TABLE message (no int PRIMARY KEY, sender int REFERENCES customer, receiver int REFERENCES customer, body text);
      INSERT INTO customer VALUES (1), (2), (3);
      INSERT INTO message VALUES (1, 1, 2, 'a'), (2, 2, 1, 'b'), (3, 1, 1, 'c'), (4, 2, 3, 'd')`);
    const target = database.open({
      tables: {
        customer: { key: { id: 'id' }, action: 'delete' },
        message: [
          { key: { sender: 'id' }, action: 'anonymize', set: { sender: null, body: null } },
          { key: { receiver: 'id' }, action: 'anonymize', set: { receiver: null } },
        ],
      },
    });
    expect((await target.describe(quiet())).map(({ place }) => place)).toEqual([
      'message(sender)',
      'message(receiver)',
      'customer',
    ]);
    expect((await eraseAll(target, subjectsById({ a: '1' }))).reported).toEqual({
      customer: 1,
      'message(sender)': 2,
      'message(receiver)': 2,
    });
    expect(await database.query('SELECT * FROM message ORDER BY no')).toEqual([
      { no: 1, sender: null, receiver: 2, body: null },
      { no: 2, sender: 2, receiver: null, body: 'b' },
      { no: 3, sender: null, receiver: null, body: null },
      { no: 4, sender: 2, receiver: 3, body: 'd' },
    ]);
  });

  it('WF-28: goes on from every cursor of an undisturbed run, and from one that names nothing', async () => {
    database = await createTargetDatabase(shop);
    const target = database.open({ tables: everything });
    const cursors: JsonValue[] = [null, { next: 'no such place', restarts: 0 }, 'nonsense', 7, { next: 3 }];
    for (let cursor: JsonValue = null, done = false; !done;) {
      const answers = await target.erase(new Map([['a', { identifiers: { id: '1' }, locators: {}, cursor }]]), {
        limit: 2,
        signal: quiet(),
      });
      const progress = answers.get('a') as EraseProgress;
      ({ cursor, done } = progress);
      if (!cursors.some((known) => JSON.stringify(known) === JSON.stringify(cursor))) cursors.push(cursor);
    }
    for (const [index, cursor] of cursors.entries()) {
      const run = await eraseAll(target, subjectsById({ a: String(index + 2) }), { limit: 7, cursor });
      expect([...run.errors.values()]).toEqual([]);
      // A cursor that was ahead of the rows comes back to its beginning.
      await eraseAll(target, subjectsById({ a: String(index + 2) }));
      for (const { matched } of Object.values(await countOf(target, { id: String(index + 2) })))
        expect(matched).toBe(0);
    }
  });

  it('WF-12: the same subject twice in one batch is erased once', async () => {
    database = await createTargetDatabase(shop);
    const target = database.open({ tables: everything });
    const run = await eraseAll(target, subjectsById({ a: '1', again: '1', b: '2' }), { limit: 9 });
    expect([...run.errors.values()]).toEqual([]);
    expect(await database.rows('customer')).toBe(18);
    expect(await database.rows('search_log')).toBe(216);
  });

  it('runs as many statements for a thousand subjects as for one', async () => {
    const statements = async (subjects: number): Promise<number> => {
      const own = await createTargetDatabase(shop);
      const target = own.open({ tables: everything });
      await target.describe(quiet());
      const query = pg.Client.prototype.query as (...values: unknown[]) => unknown;
      let count = 0;
      pg.Client.prototype.query = function (this: pg.Client, ...values: unknown[]) {
        count += 1;
        return query.apply(this, values);
      } as typeof pg.Client.prototype.query;
      try {
        const ids = Object.fromEntries(Array.from({ length: subjects }, (_, n) => [`r${n}`, String(n + 1)]));
        await eraseAll(target, subjectsById(ids));
        await target.count(subjectsById(ids), quiet());
      } finally {
        pg.Client.prototype.query = query as typeof pg.Client.prototype.query;
      }
      await own.drop();
      return count;
    };
    database = await createTargetDatabase();
    expect(await statements(1_000)).toBe(await statements(1));
  });
});

const chinook = join(process.env.EXPUNGE_TEST_SHARED_DIR ?? '../shared', 'data/chinook/chinook-postgresql.sql');

describeWithPostgres('a well-known schema', () => {
  it.skipIf(!existsSync(chinook))(
    'WF-10: deletes a customer of the Chinook shop and leaves the rest as it was',
    async () => {
      const database = await createTargetDatabase();
      try {
        await database.query(await readFile(chinook, 'utf8'));
        const print = () =>
          database.query(
            `SELECT md5(string_agg(t::text, '|' ORDER BY customer_id)) FROM customer t WHERE customer_id <> 42`,
          );
        const before = await print();
        const tables = {
          customer: { key: { customer_id: 'id' }, action: 'delete' },
          invoice: { key: { customer_id: 'id' }, action: 'delete' },
          invoice_line: { through: 'invoice', action: 'delete' },
        } as const;
        const partly = database.open({ tables: { customer: tables.customer } });
        expect((await failureOf(partly.describe(quiet()))).message).toContain(
          '"invoice" (invoice_customer_id_fkey, ON DELETE NO ACTION)',
        );
        const target = database.open({ tables });
        expect(await target.warnings(quiet())).toEqual([]);
        const run = await eraseAll(target, subjectsById({ a: '42' }));
        expect(run).toMatchObject({ slices: 1, reported: { customer: 1, invoice: 7, invoice_line: 38 } });
        expect(await print()).toEqual(before);
      } finally {
        await database.drop();
      }
    },
  );
});
