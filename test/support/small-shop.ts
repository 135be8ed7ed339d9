/** A small shop on PostgreSQL with an Expunge beside it, in this process: what tests of whole erasures start from. */
import pg from 'pg';
import { Client } from '../../src/client/client.js';
import { migrateDatabase, openDatabase } from '../../src/client/open-database.js';
import { defineConfig } from '../../src/config/define-config.js';
import { generateKeyFiles, type KeyFiles } from '../../src/keys/generate-key-files.js';
import { parseKeyRing } from '../../src/keys/key-ring.js';
import { type Log, silentLog } from '../../src/observe/log.js';
import { postgres, type Tables } from '../../src/targets/postgres/index.js';
import type { TargetDeclaration } from '../../src/targets/target.js';
import { createTestDatabase } from './postgres.js';

/** Each customer has a session, two invoices of three lines each, and two visits with two searches each. */
const schema = `
  CREATE TABLE customer (customer_id int PRIMARY KEY, name text NOT NULL, email text NOT NULL UNIQUE);
  CREATE TABLE session (token text PRIMARY KEY, customer_id int NOT NULL REFERENCES customer);
  CREATE INDEX ON session (customer_id);
  CREATE TABLE invoice (invoice_id int PRIMARY KEY, customer_id int REFERENCES customer, address text);
  CREATE INDEX ON invoice (customer_id);
  CREATE TABLE invoice_line (line_id int PRIMARY KEY, invoice_id int NOT NULL REFERENCES invoice, what text NOT NULL);
  CREATE INDEX ON invoice_line (invoice_id);
  -- Without foreign keys, as logs are.
  CREATE TABLE visit (no int PRIMARY KEY, customer_id int NOT NULL);
  CREATE INDEX ON visit (customer_id);
  CREATE TABLE search_log (id int PRIMARY KEY, visit_no int NOT NULL, words text NOT NULL);
  CREATE INDEX ON search_log (visit_no);`;

function rowsSql({ first, count }: Customers): string {
  return `
  INSERT INTO customer SELECT i, 'Name ' || i, 'person' || i || '@example.com' FROM generate_series(${first}, ${first + count - 1}) i;
  INSERT INTO session SELECT md5(i::text), i FROM generate_series(${first}, ${first + count - 1}) i;
  INSERT INTO invoice SELECT i, ${first} + i % ${count}, 'Street ' || i FROM generate_series(1, ${2 * count}) i;
  INSERT INTO invoice_line SELECT i, 1 + i % ${2 * count}, 'thing ' || i FROM generate_series(1, ${6 * count}) i;
  INSERT INTO visit SELECT i, ${first} + i % ${count} FROM generate_series(1, ${2 * count}) i;
  INSERT INTO search_log SELECT i, 1 + i % ${2 * count}, 'words ' || i FROM generate_series(1, ${4 * count}) i;`;
}

/** How many rows of each table are one customer's. */
export const rowsOfOne = { customer: 1, session: 1, invoice: 2, invoice_line: 6, visit: 2, search_log: 4 } as const;

export const shopTables = {
  customer: { key: { customer_id: 'customerId' }, action: 'delete' },
  session: { key: { customer_id: 'customerId' }, action: 'delete', revoke: true },
  invoice: { key: { customer_id: 'customerId' }, action: 'delete' },
  invoice_line: { through: 'invoice', action: 'delete' },
  visit: { key: { customer_id: 'customerId' }, action: 'delete' },
  search_log: { through: { table: 'visit', on: { visit_no: 'no' } }, action: 'delete' },
} as const satisfies Tables<'customerId'>;

export const identifiers = { customerId: { opaque: true }, email: { normalise: 'email' } } as const;

interface ClientOptions {
  /** Of the target `operational`. */
  readonly tables?: Tables<'customerId' | 'email'>;
  readonly targets?: Readonly<Record<string, TargetDeclaration>>;
  readonly log?: Log;
}

/** Who is in the shop: so many, with ids that follow each other. */
export interface Customers {
  readonly first: number;
  readonly count: number;
}

export interface SmallShop {
  /** Of the shop's database. */
  readonly url: string;
  readonly ownUrl: string;
  readonly keys: KeyFiles;
  /** Runs SQL in the shop's database. */
  query<R extends pg.QueryResultRow>(statement: string, values?: readonly unknown[]): Promise<readonly R[]>;
  /** Runs SQL in Expunge's own database, in the product's schema. */
  own<R extends pg.QueryResultRow>(statement: string, values?: readonly unknown[]): Promise<readonly R[]>;
  /** Rows of every table of the shop as text, by table. */
  rows(): Promise<Readonly<Record<string, readonly string[]>>>;
  /** A client with the worker's keys and, unless told otherwise, the target `operational` alone. Closed with the shop. */
  client(options?: ClientOptions): Promise<Client>;
  close(): Promise<void>;
}

/** @param customers - 1 to 9 by default. */
export async function openSmallShop(customers: Customers = { first: 1, count: 9 }): Promise<SmallShop> {
  const [shop, own] = await Promise.all([createTestDatabase(), createTestDatabase()]);
  const keys = generateKeyFiles();
  const shopClient = new pg.Client(shop.url);
  const ownClient = new pg.Client({ connectionString: own.url, options: '-c search_path=expunge' });
  const opened: Client[] = [];
  await Promise.all([shopClient.connect(), ownClient.connect()]);
  await shopClient.query(schema);
  await shopClient.query(rowsSql(customers));
  await migrateDatabase({ kind: 'postgres', url: own.url });
  const query = async <R extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []) =>
    (await shopClient.query<R>(text, [...values])).rows;
  return {
    url: shop.url,
    ownUrl: own.url,
    keys,
    query,
    own: async <R extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []) =>
      (await ownClient.query<R>(text, [...values])).rows,
    async rows() {
      const tables: Record<string, readonly string[]> = {};
      for (const table of Object.keys(rowsOfOne)) {
        const rows = await query<{ row: string }>(`SELECT r::text AS row FROM ${table} r ORDER BY 1`);
        tables[table] = rows.map(({ row }) => row);
      }
      return tables;
    },
    async client({ tables = shopTables, targets, log = silentLog }: ClientOptions = {}) {
      const config = defineConfig({
        database: own.url,
        subject: { key: 'customerId', identifiers },
        targets: targets ?? { operational: postgres({ url: shop.url, tables }) },
      });
      const client = new Client(config, await openDatabase(config.database), parseKeyRing(keys.worker, 'worker'), log);
      opened.push(client);
      return client;
    },
    async close() {
      await Promise.all(opened.map((client) => client.close()));
      await Promise.all([shopClient.end(), ownClient.end()]);
      await Promise.all([shop.drop(), own.drop()]);
    },
  };
}
