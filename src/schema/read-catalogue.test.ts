import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createTestDatabase, describeWithPostgres, type TestDatabase } from '../../test/support/postgres.js';
import { type Catalogue, findColumn, findRelation, isUnique, relationName, rowIdentity } from './catalogue.js';
import { readCatalogue } from './read-catalogue.js';
import { undeclaredReferences } from './references.js';

const sql = `
CREATE SCHEMA shop;
CREATE DOMAIN shop.number AS bigint CHECK (value > 0);
CREATE DOMAIN shop.customer_number AS shop.number NOT NULL;
CREATE TABLE shop."Customer" (
  "No" shop.customer_number, region char(2) NOT NULL, code varchar(10) NOT NULL, mail text UNIQUE,
  twice bigint GENERATED ALWAYS AS ("No" * 2) STORED, serial int GENERATED ALWAYS AS IDENTITY,
  PRIMARY KEY ("No"), UNIQUE (code, region));
CREATE UNIQUE INDEX filled ON shop."Customer" (mail) WHERE mail <> '';
CREATE INDEX lowered ON shop."Customer" (lower(mail), code) INCLUDE (region);
CREATE TABLE shop.event (
  day date NOT NULL, no bigint NOT NULL, region char(2), code varchar(10), customer bigint REFERENCES shop."Customer" ON DELETE CASCADE,
  PRIMARY KEY (day, no), CONSTRAINT by_code FOREIGN KEY (region, code) REFERENCES shop."Customer" (region, code) ON DELETE SET NULL
) PARTITION BY RANGE (day);
CREATE TABLE shop.event_old PARTITION OF shop.event FOR VALUES FROM (MINVALUE) TO ('2020-01-01') PARTITION BY RANGE (day);
CREATE TABLE shop.event_older PARTITION OF shop.event_old FOR VALUES FROM (MINVALUE) TO ('2010-01-01');
CREATE TABLE shop.event_new PARTITION OF shop.event DEFAULT;
ALTER TABLE shop.event_new ADD CONSTRAINT only_new FOREIGN KEY (no) REFERENCES shop."Customer" ON DELETE RESTRICT NOT VALID;
CREATE TABLE note (day date, no bigint, FOREIGN KEY (day, no) REFERENCES shop.event ON DELETE CASCADE);
CREATE TABLE reader (note int); CREATE TABLE heir () INHERITS (reader);
CREATE VIEW shown AS SELECT 1 AS one;
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER after AFTER DELETE ON reader FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE TRIGGER before BEFORE DELETE ON shop.event_new FOR EACH ROW EXECUTE FUNCTION nothing();
INSERT INTO reader VALUES (1), (2); ANALYZE reader;
ALTER TABLE note DISABLE TRIGGER ALL;`;

describeWithPostgres('the catalogue of a PostgreSQL database', () => {
  let database: TestDatabase;
  let client: pg.Client;
  let catalogue: Catalogue;
  beforeAll(async () => {
    database = await createTestDatabase();
    client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query(sql);
    catalogue = await readCatalogue(
      async (text, values) => (await client.query<object>(text, [...values])).rows,
      [
        { schema: 'shop', table: 'Customer' },
        { schema: 'shop', table: 'event' },
        { schema: 'public', table: 'reader' },
        { schema: 'public', table: 'missing' },
      ],
    );
  });
  afterAll(async () => {
    await client.end();
    await database.drop();
  });

  const relation = (schema: string, name: string) => findRelation(catalogue, schema, name)!;

  it('tells tables, partitions, heirs and views apart, by their exact names', () => {
    expect(findRelation(catalogue, 'shop', 'customer')).toBeUndefined();
    expect(relation('shop', 'Customer')).toMatchObject({ kind: 'table', root: null, inherits: [], rowSecurity: false });
    expect(relation('shop', 'event')).toMatchObject({ kind: 'partitioned table', root: null });
    expect(relation('shop', 'event_older')).toMatchObject({ root: relation('shop', 'event').oid, inherits: [] });
    expect(relation('public', 'heir')).toMatchObject({ root: null, inherits: [relation('public', 'reader').oid] });
    expect(relation('public', 'shown').kind).toBe('view');
    expect(relation('public', 'reader')).toMatchObject({ rows: 2, may: { select: true, delete: true, update: true } });
    expect(relationName(relation('public', 'reader'))).toBe('reader');
    expect(relationName(relation('shop', 'event'))).toBe('shop.event');
  });

  it('knows which tables can make nothing of a change, a partitioned one by any of its partitions', () => {
    expect(relation('public', 'reader').mayRefuseSilently).toBe(false);
    expect(relation('shop', 'event').mayRefuseSilently).toBe(true);
  });

  it('sees through domains to the type below, and what they forbid', () => {
    const customer = relation('shop', 'Customer');
    expect(findColumn(catalogue, customer, 'No')).toMatchObject({
      typeName: 'int8',
      type: 'bigint',
      declaredType: 'shop.customer_number',
      notNull: true,
      generated: false,
    });
    expect(findColumn(catalogue, customer, 'region')).toMatchObject({ type: 'bpchar', declaredType: 'character(2)' });
    expect(findColumn(catalogue, customer, 'code')).toMatchObject({
      declaredType: 'character varying(10)',
      category: 'S',
    });
    expect(findColumn(catalogue, customer, 'twice')?.generated).toBe(true);
    expect(findColumn(catalogue, customer, 'serial')?.generated).toBe(true);
  });

  it('lists each foreign key once, of partitions too, and whether it holds', () => {
    const customer = relation('shop', 'Customer');
    const event = relation('shop', 'event');
    const keys = catalogue.foreignKeys.map(({ name, child, childPart, parent, onDelete, enforced, ...columns }) => ({
      name,
      child: relationName(catalogue.relations.get(child)!),
      part: relationName(catalogue.relations.get(childPart)!),
      parent: relationName(catalogue.relations.get(parent)!),
      onDelete,
      enforced,
      columns: [columns.childColumns, columns.parentColumns],
    }));
    expect(keys).toHaveLength(4);
    expect(keys).toContainEqual({
      name: 'by_code',
      child: 'shop.event',
      part: 'shop.event',
      parent: 'shop.Customer',
      onDelete: 'SET NULL',
      enforced: true,
      columns: [
        ['region', 'code'],
        ['region', 'code'],
      ],
    });
    expect(keys).toContainEqual(
      expect.objectContaining({
        name: 'only_new',
        child: 'shop.event',
        part: 'shop.event_new',
        onDelete: 'RESTRICT',
        enforced: false,
      }),
    );
    expect(keys).toContainEqual(expect.objectContaining({ child: 'note', parent: 'shop.event', enforced: false }));
    expect(
      undeclaredReferences(catalogue, customer, 'delete', new Set([customer.oid])).map(({ key, through }) => [
        key.name,
        through?.name ?? null,
      ]),
    ).toEqual([
      ['by_code', null],
      ['event_customer_fkey', null],
      ['note_day_no_fkey', 'event'],
      ['only_new', null],
    ]);
    expect(undeclaredReferences(catalogue, customer, ['mail'], new Set([customer.oid]))).toEqual([]);
    expect(
      undeclaredReferences(catalogue, customer, ['code'], new Set([customer.oid])).map(({ key }) => key.name),
    ).toEqual(['by_code']);
    expect(undeclaredReferences(catalogue, customer, 'delete', new Set([customer.oid, event.oid]))).toEqual([]);
  });

  it('knows what names a row, and what is unique', () => {
    const customer = relation('shop', 'Customer');
    expect(rowIdentity(catalogue, customer)?.map(({ name }) => name)).toEqual(['No']);
    expect(rowIdentity(catalogue, relation('shop', 'event'))?.map(({ name }) => name)).toEqual(['day', 'no']);
    expect(rowIdentity(catalogue, relation('public', 'reader'))).toBeNull();
    expect(isUnique(catalogue, customer, ['region', 'code', 'mail'])).toBe(true);
    expect(isUnique(catalogue, customer, ['code'])).toBe(false);
    expect(catalogue.indexes.find(({ name }) => name === 'filled')).toMatchObject({ whole: false, columns: ['mail'] });
    expect(catalogue.indexes.find(({ name }) => name === 'lowered')).toMatchObject({ columns: [null, 'code'] });
    expect(catalogue.constraintNames.has('by_code')).toBe(true);
  });
});
