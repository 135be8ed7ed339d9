import { afterEach, expect, it } from 'vitest';
import { describeWithPostgres } from '../../../test/support/postgres.js';
import {
  countOf,
  createTargetDatabase,
  eraseAll,
  quiet,
  subjectsById,
  type TargetDatabase,
} from '../../../test/support/postgres-target.js';
import { TargetFailedError } from '../target-error.js';

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
});
