/** Many people in a shop, of whom one is protected, and one is held by somebody else's row: told from a file to the end. */
import { writeFile } from 'node:fs/promises';
import { postgres } from '../../src/targets/postgres/index.js';
import type { SmallShop } from './small-shop.js';

/** They begin here; the shop's own customers are below, and are nobody's to delete. */
export const FIRST_OF_CROWD = 10_001;
export const PROTECTED = FIRST_OF_CROWD + 4;
/** Recommended by a customer who stays. */
export const HELD = FIRST_OF_CROWD + 9;

/** As source text, too: the command line needs it in a configuration file. */
export const crowdTablesText = `
  customer: { key: { customer_id: 'customerId' }, action: 'delete' },
  recommendation: { key: { customer_id: 'customerId' }, action: 'delete' },
  visit: { key: { customer_id: 'customerId' }, action: 'delete' },
  search_log: { through: { table: 'visit', on: { visit_no: 'no' } }, action: 'delete' },`;

/** Everything that references \`customer\` has to be declared; this shop has no sessions or invoices. */
export const crowdTarget = (url: string) =>
  postgres({
    url,
    tables: {
      customer: { key: { customer_id: 'customerId' }, action: 'delete' },
      recommendation: { key: { customer_id: 'customerId' }, action: 'delete' },
      visit: { key: { customer_id: 'customerId' }, action: 'delete' },
      search_log: { through: { table: 'visit', on: { visit_no: 'no' } }, action: 'delete' },
    },
  });

/** One customer, one recommendation of their own, two visits and two searches each. */
export async function addCrowd(shop: SmallShop, size: number): Promise<void> {
  await shop.query(`
    DROP TABLE session, invoice_line, invoice;
    CREATE TABLE recommendation (customer_id int NOT NULL, recommended int NOT NULL REFERENCES customer);
    CREATE INDEX ON recommendation (customer_id);
    CREATE INDEX ON recommendation (recommended)`);
  const people = `generate_series(${FIRST_OF_CROWD}, ${FIRST_OF_CROWD + size - 1}) i`;
  await shop.query(`INSERT INTO customer SELECT i, 'Name', 'crowd' || i || '@example.com' FROM ${people}`);
  await shop.query(`INSERT INTO recommendation SELECT i, 1 FROM ${people}`);
  await shop.query(`INSERT INTO visit SELECT i * 2 + n, i FROM ${people}, generate_series(0, 1) n`);
  await shop.query(`INSERT INTO search_log SELECT no, no, 'words' FROM visit WHERE customer_id >= ${FIRST_OF_CROWD}`);
  await shop.query('ANALYZE');
}

/** What really happens between an approval and the work: somebody who stays recommends somebody who goes. */
export async function recommend(shop: SmallShop): Promise<void> {
  await shop.query(`INSERT INTO recommendation VALUES (1, ${HELD})`);
}

export async function writeCrowd(path: string, size: number): Promise<void> {
  const lines = Array.from({ length: size }, (_, at) => String(FIRST_OF_CROWD + at));
  await writeFile(path, `customerId\n${lines.join('\n')}\n`);
}

/** Who of the crowd is still in one of the tables. */
export async function leftOfCrowd(shop: SmallShop): Promise<readonly number[]> {
  const rows = await shop.query<{ id: number }>(`
    SELECT customer_id AS id FROM customer UNION SELECT customer_id FROM recommendation UNION SELECT customer_id FROM visit
    ORDER BY 1`);
  return rows.map(({ id }) => id).filter((id) => id >= FIRST_OF_CROWD);
}
