/** Many erasures in one worker's batch, and how many statements they took on either side. */
import type { Office, Desk } from './erasure-office.js';
import { operational } from './erasure-office.js';
import { startPostgresProxy } from './postgres-proxy.js';

export interface Counted {
  /** On Expunge's own database. */
  readonly own: number;
  /** On the shop's. */
  readonly shop: number;
  readonly statuses: readonly string[];
}

/** Adds customers `first` to `last` to the shop: two invoices, four lines, a visit and two searches each. */
export async function addCustomers(office: Office, first: number, last: number): Promise<void> {
  await office.query(
    `WITH c AS (INSERT INTO customer SELECT i, 'Name ' || i, 'more' || i || '@example.com' FROM generate_series($1::int, $2::int) i RETURNING customer_id AS i),
          v AS (INSERT INTO visit SELECT 10000 + i, i FROM c),
          s AS (INSERT INTO search_log SELECT 10000 + i * 2 + n, 10000 + i, 'words' FROM c, generate_series(0, 1) n),
          o AS (INSERT INTO invoice SELECT 10000 + i * 2 + n, i, 'Street' FROM c, generate_series(0, 1) n)
     INSERT INTO invoice_line SELECT 10000 + i * 4 + n, 10000 + i * 2 + n / 2, 'thing' FROM c, generate_series(0, 3) n`,
    [first, last],
  );
}

/** Erases customers `first` to `last` in one batch of one worker. */
export async function eraseBatch(office: Office, first: number, last: number): Promise<Counted> {
  await addCustomers(office, first, last);
  const proxy = await startPostgresProxy(office.url);
  try {
    // The plan names the server, so that what is approved through the proxy is run through it.
    const desk = office.desk({ targets: { operational: operational(proxy.url) } });
    const ids: string[] = [];
    for (let customer = first; customer <= last; customer += 1) ids.push(await desk.approved(customer));
    desk.statements.length = 0;
    proxy.statements.length = 0;
    await workOnce(desk);
    const counted = { own: desk.statements.length, shop: proxy.statements.length };
    return { ...counted, statuses: await Promise.all(ids.map((id) => desk.status(id))) };
  } finally {
    await proxy.close();
  }
}

/** One loop, until nothing is due. */
export function workOnce({ client }: Desk): Promise<void> {
  return client.requests.work({
    executorId: 'worker-a',
    signal: new AbortController().signal,
    once: true,
    concurrency: 1,
  });
}
