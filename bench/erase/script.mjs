/**
 * The best script by hand that we know: children first, by their indexes, some thousand subjects a transaction, and a count of
 * what is left of them by another connection.
 */
import pg from 'pg';
import { contestant } from '../measure/contestant.mjs';
import { buildShop, chosen, requireGone } from './shop.mjs';

const DELETES = [
  'DELETE FROM invoice_line l USING invoice i WHERE i.invoice_id = l.invoice_id AND i.customer_id = ANY ($1::integer[])',
  'DELETE FROM invoice WHERE customer_id = ANY ($1::integer[])',
  'DELETE FROM note WHERE customer_id = ANY ($1::integer[])',
  'DELETE FROM customer WHERE customer_id = ANY ($1::integer[])',
];
const COUNTS = [
  'SELECT count(*) FROM invoice_line l JOIN invoice i USING (invoice_id) WHERE i.customer_id = ANY ($1::integer[])',
  'SELECT count(*) FROM invoice WHERE customer_id = ANY ($1::integer[])',
  'SELECT count(*) FROM note WHERE customer_id = ANY ($1::integer[])',
  'SELECT count(*) FROM customer WHERE customer_id = ANY ($1::integer[])',
];

await contestant({
  async prepare({ url, customers, subjects }) {
    await buildShop(url, customers);
    const [deleting, counting] = [new pg.Client({ connectionString: url }), new pg.Client({ connectionString: url })];
    await Promise.all([deleting.connect(), counting.connect()]);
    return { deleting, counting, ids: chosen(customers, subjects) };
  },
  async run({ deleting, counting, ids }, { subjects, batch }) {
    for (let first = 0; first < ids.length; first += batch) {
      const part = [ids.slice(first, first + batch)];
      await deleting.query('BEGIN');
      for (const sql of DELETES) await deleting.query(sql, part);
      await deleting.query('COMMIT');
      for (const sql of COUNTS) {
        const { rows } = await counting.query(sql, part);
        if (rows[0].count !== '0') throw new Error('something is left');
      }
    }
    return subjects;
  },
  async check({ deleting, counting, ids }, { url, customers }) {
    await Promise.all([deleting.end(), counting.end()]);
    await requireGone(url, ids, customers);
  },
});
