/** A shop with a hundred thousand customers; ten thousand of them go. */
import pg from 'pg';

const TABLES = `
  CREATE TABLE customer (customer_id integer PRIMARY KEY, name text NOT NULL, email text NOT NULL);
  CREATE TABLE invoice (
    invoice_id integer PRIMARY KEY, customer_id integer NOT NULL REFERENCES customer, address text NOT NULL, total numeric NOT NULL);
  CREATE INDEX ON invoice (customer_id);
  CREATE TABLE invoice_line (
    invoice_line_id integer PRIMARY KEY, invoice_id integer NOT NULL REFERENCES invoice, article text NOT NULL);
  CREATE INDEX ON invoice_line (invoice_id);
  CREATE TABLE note (note_id integer PRIMARY KEY, customer_id integer NOT NULL REFERENCES customer, text text NOT NULL);
  CREATE INDEX ON note (customer_id);`;

export const DECLARATION = {
  customer: { key: { customer_id: 'customerId' }, action: 'delete' },
  invoice: { key: { customer_id: 'customerId' }, action: 'delete' },
  invoice_line: { through: 'invoice', action: 'delete' },
  note: { key: { customer_id: 'customerId' }, action: 'delete' },
};

export async function buildShop(url, customers) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(TABLES);
  await client.query(`
    INSERT INTO customer SELECT n, 'name ' || n, 'c' || n || '@example.com' FROM generate_series(1, ${customers}) AS n;
    INSERT INTO invoice SELECT n, 1 + n % ${customers}, 'street ' || n, n FROM generate_series(1, ${customers * 3}) AS n;
    INSERT INTO invoice_line SELECT n, 1 + n % ${customers * 3}, 'article ' || n FROM generate_series(1, ${customers * 9}) AS n;
    INSERT INTO note SELECT n, 1 + n % ${customers}, 'text ' || n FROM generate_series(1, ${customers * 2}) AS n;`);
  await client.query('VACUUM ANALYZE');
  await client.end();
}

/** Every tenth. */
export function chosen(customers, count) {
  return Array.from({ length: count }, (_one, index) => 1 + index * Math.floor(customers / count));
}

export async function requireGone(url, ids, customers) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(
    `SELECT (SELECT count(*)::integer FROM customer WHERE customer_id = ANY ($1)) AS left, (SELECT count(*)::integer FROM customer) AS others,
            (SELECT count(*)::integer FROM invoice) AS invoices, (SELECT count(*)::integer FROM invoice_line) AS lines`,
    [ids],
  );
  await client.end();
  const others = customers - ids.length;
  const [{ left, others: kept, invoices, lines }] = rows;
  if (left !== 0 || kept !== others || invoices !== others * 3 || lines !== others * 9) {
    throw new Error(`left ${left}, others ${kept}, invoices ${invoices}, lines ${lines}`);
  }
}
