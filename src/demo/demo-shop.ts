/** The shop that the demo deletes a customer from: an embedded PostgreSQL database, a warehouse, a search index and a tree of files. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import type { Drivers } from './drivers.js';
import { buildAnalytical } from './duckdb/build-analytical.js';
import { buildSearch } from './sqlite/build-search.js';

export const CUSTOMERS = 20;
const INVOICES_EACH = 4;

const SCHEMA = `
  CREATE TABLE customer (customer_id integer PRIMARY KEY, name text NOT NULL, email text NOT NULL);
  CREATE TABLE session (token text PRIMARY KEY, customer_id integer NOT NULL REFERENCES customer);
  CREATE INDEX ON session (customer_id);
  CREATE TABLE invoice (invoice_id integer PRIMARY KEY, customer_id integer NOT NULL REFERENCES customer, total numeric);
  CREATE INDEX ON invoice (customer_id);
  CREATE TABLE invoice_line (
    invoice_id integer REFERENCES invoice, line integer, article text, PRIMARY KEY (invoice_id, line));
  INSERT INTO customer SELECT i, 'Customer ' || i, 'customer-' || i || '@shop.example' FROM generate_series(1, ${CUSTOMERS}) i;
  INSERT INTO session SELECT md5(i::text), i FROM generate_series(1, ${CUSTOMERS}) i;
  INSERT INTO invoice SELECT i, 1 + i % ${CUSTOMERS}, i * 10 FROM generate_series(1, ${CUSTOMERS * INVOICES_EACH}) i;
  INSERT INTO invoice_line SELECT i, l, 'article ' || l FROM generate_series(1, ${CUSTOMERS * INVOICES_EACH}) i, generate_series(1, 3) l;`;

/**
 * Builds the shop below `directory`: `shop/`, the database; `artifacts/`, an export a customer and a PDF an invoice; and the
 * stores whose driver is there.
 */
export async function buildShop(directory: string, drivers: Drivers): Promise<void> {
  await mkdir(join(directory, 'shop'), { recursive: true });
  const database = await PGlite.create({ dataDir: join(directory, 'shop', 'data') });
  try {
    await database.exec(SCHEMA);
  } finally {
    await database.close();
  }
  if (drivers.duckdb) await buildAnalytical(directory, CUSTOMERS);
  if (drivers.sqlite) await buildSearch(directory, CUSTOMERS);
  await mkdir(join(directory, 'artifacts', 'invoices'), { recursive: true });
  for (let customer = 1; customer <= CUSTOMERS; customer += 1) {
    const exports = join(directory, 'artifacts', 'customers', String(customer));
    await mkdir(exports, { recursive: true });
    await writeFile(join(exports, 'export.json'), `{"name":"Customer ${customer}"}\n`);
  }
  for (let invoice = 1; invoice <= CUSTOMERS * INVOICES_EACH; invoice += 1) {
    await writeFile(join(directory, 'artifacts', 'invoices', `${invoice}.pdf`), `%PDF invoice ${invoice}\n`);
  }
}
