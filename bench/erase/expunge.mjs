/** Expunge's PostgreSQL target as the engine drives it: slices, then an independent count. */
import { postgres } from '../../dist/targets/postgres/index.js';
import { execute } from '../measure/server.mjs';
import { contestant } from '../measure/contestant.mjs';
import { buildShop, chosen, DECLARATION, requireGone } from './shop.mjs';

const signal = new AbortController().signal;

await contestant({
  async prepare({ url, customers, subjects, batch }) {
    await buildShop(url, customers);
    const target = postgres({ url, tables: DECLARATION }).open('operational');
    // The gate has been there before, and has read the catalogue.
    await target.describe(signal);
    await execute(url, 'CREATE EXTENSION IF NOT EXISTS pg_stat_statements');
    await execute(url, 'SELECT pg_stat_statements_reset()');
    const ids = chosen(customers, subjects);
    const batches = [];
    for (let first = 0; first < ids.length; first += batch) batches.push(batchOf(ids.slice(first, first + batch)));
    return { target, ids, batches };
  },
  async run({ target, batches }, { subjects, limit }) {
    for (const batch of batches) await eraseAndVerify(target, batch, limit);
    return subjects;
  },
  async check({ target, ids }, { url, customers }) {
    await target.close();
    await requireGone(url, ids, customers);
  },
  facts: (_context, { url }) => mostCalls(url),
});

function batchOf(ids) {
  return new Map(
    ids.map((id, index) => [`s${index}`, { identifiers: { customerId: String(id) }, locators: {}, cursor: null }]),
  );
}

async function eraseAndVerify(target, batch, limit) {
  let open = batch;
  while (open.size > 0) {
    const answers = await target.erase(open, { limit, signal });
    const rest = [...answers].filter(([, progress]) => !progress.done);
    open = new Map(rest.map(([ref, progress]) => [ref, { ...batch.get(ref), cursor: progress.cursor }]));
  }
  for (const places of (await target.count(batch, signal)).values()) {
    if (places.some(({ matched }) => matched > 0)) throw new Error('a place is not clean');
  }
}

/** The statement that was sent most often. */
async function mostCalls(url) {
  const [row] = await execute(
    url,
    `SELECT calls::integer AS calls, left(query, 60) AS query FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
      WHERE d.datname = current_database() ORDER BY calls DESC LIMIT 1`,
  );
  return { mostCalls: row.calls, mostCalled: row.query };
}
