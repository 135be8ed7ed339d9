/** Stores that report success and did not do it, or undo it: no request completes on their word (WF-19). */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../src/client/client.js';
import type { RunEnd } from '../src/engine/advance.js';
import { verifyReceipts } from '../src/evidence/verify-receipts.js';
import { decodeReceipts } from './support/chinook-deletion.js';
import { describeWithPostgres } from './support/postgres.js';
import { openSmallShop, rowsOfOne, shopTables, type SmallShop } from './support/small-shop.js';

const anonymized = {
  ...shopTables,
  invoice: { key: { customer_id: 'customerId' }, action: 'anonymize', set: { customer_id: null, address: null } },
  invoice_line: { through: 'invoice', action: 'delete' },
} as const;

interface Liar {
  readonly what: string;
  /** Makes the store lie. */
  readonly lie: string;
  readonly truth: string;
  /** What has to be named: the table, and how many rows are left; null where the server itself refuses. */
  readonly table: string;
  readonly left: number | null;
  readonly tables?: typeof shopTables | typeof anonymized;
}

const suppress = (table: string, event: string, answer: 'NULL' | 'OLD') => ({
  lie: `CREATE FUNCTION lie() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN ${answer}; END';
        CREATE TRIGGER lie BEFORE ${event} ON ${table} FOR EACH ROW EXECUTE FUNCTION lie()`,
  truth: `DROP TRIGGER lie ON ${table}; DROP FUNCTION lie()`,
});

const liars: readonly Liar[] = [
  { what: 'a trigger that keeps the row', ...suppress('customer', 'DELETE', 'NULL'), table: 'customer', left: 1 },
  {
    what: 'a trigger that keeps rows which are reached through a parent without a foreign key',
    ...suppress('search_log', 'DELETE', 'NULL'),
    table: 'search_log',
    left: 4,
  },
  {
    what: 'a trigger that keeps sessions, which are to be revoked',
    ...suppress('session', 'DELETE', 'NULL'),
    table: 'session',
    left: 1,
  },
  {
    what: 'a trigger that skips the update of rows which are to be anonymized',
    ...suppress('invoice', 'UPDATE', 'NULL'),
    table: 'invoice',
    left: 2,
    tables: anonymized,
  },
  {
    what: 'a trigger that puts the old values back',
    ...suppress('invoice', 'UPDATE', 'OLD'),
    table: 'invoice',
    left: 2,
    tables: anonymized,
  },
  {
    what: 'a rule that does nothing instead',
    lie: 'CREATE RULE lie AS ON DELETE TO visit DO INSTEAD NOTHING',
    truth: 'DROP RULE lie ON visit',
    table: 'visit',
    left: null,
  },
  {
    what: 'a trigger that inserts the row again',
    lie: `CREATE FUNCTION lie() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN INSERT INTO customer VALUES (OLD.*); RETURN NULL; END';
          CREATE TRIGGER lie AFTER DELETE ON customer FOR EACH ROW EXECUTE FUNCTION lie()`,
    truth: 'DROP TRIGGER lie ON customer; DROP FUNCTION lie()',
    table: 'customer',
    left: 1,
  },
  {
    what: 'a trigger that inserts it again when the transaction commits',
    lie: `CREATE FUNCTION lie() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN INSERT INTO visit VALUES (OLD.*); RETURN NULL; END';
          CREATE CONSTRAINT TRIGGER lie AFTER DELETE ON visit DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION lie()`,
    truth: 'DROP TRIGGER lie ON visit; DROP FUNCTION lie()',
    table: 'visit',
    left: 2,
  },
  {
    what: 'a rule that inserts it again',
    lie: 'CREATE RULE lie AS ON DELETE TO visit DO ALSO INSERT INTO visit VALUES (OLD.no + 1000, OLD.customer_id)',
    truth: 'DROP RULE lie ON visit',
    table: 'visit',
    left: null,
  },
];

describeWithPostgres('WF-19: a store that reports success and keeps the data', () => {
  let shop: SmallShop;
  /** A customer of its own for each liar. */
  let customer = 0;

  beforeAll(async () => {
    shop = await openSmallShop();
  });
  afterAll(() => shop.close());

  const run = (client: Client, id: string): Promise<RunEnd> =>
    client.requests.run(id, { executorId: 'worker-a', signal: new AbortController().signal });

  test.each(liars)('$what: the request names target, table and what is left, and never completes', async (liar) => {
    const client = await shop.client({ tables: liar.tables ?? shopTables });
    customer += 1;
    const subject = { customerId: String(customer) };
    const { id, inventory_digest } = await client.submit(subject, { requestedBy: 'anna' });
    await client.requests.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest });
    const why = new RegExp(
      liar.left === null
        ? `operational.*"${liar.table}".*0A000.*rule`
        : `operational.*${liar.table}.*\\b${liar.left}\\b|operational.*\\b${liar.left}\\b.*${liar.table}`,
    );
    await shop.query(liar.lie);
    try {
      for (let attempt = 1; attempt <= 2; attempt += 1) {
        const end = await run(client, id);
        expect(end).toMatchObject({ kind: 'waiting', status: 'retry_wait' });
        expect(end.kind === 'waiting' ? end.why : '').toMatch(why);
        const { request, stages } = await client.requests.show(id);
        expect(request).toMatchObject({ status: 'retry_wait', completed_at: null, lease_owner: null });
        expect(request.last_error).toMatch(why);
        expect(stages.map(({ stage }) => stage)).not.toContain('seal');
        expect(await shop.own('SELECT 1 FROM deletion_receipts WHERE request_id = $1', [id])).toEqual([]);
        expect((await client.get<'operational'>(id)).targets.operational).toBe('running');
        expect(await client.status(subject)).toMatchObject({ status: 'DELETED', state: 'in_progress' });
        await due(id);
      }
    } finally {
      await shop.query(liar.truth);
    }

    expect(await run(client, id)).toEqual({ kind: 'ended', status: 'completed' });
    const exported = await client.exportReceipts(id);
    expect((await verifyReceipts(exported, shop.keys.verification)).verified).toBe(true);
    const [receipt] = decodeReceipts(exported);
    const counted = Object.fromEntries((receipt?.places ?? []).map((place) => [place.place, place.counted]));
    expect(counted).toEqual(rowsOfOne);
    expect(receipt?.places?.every(({ left }) => left === 0)).toBe(true);
    expect(await shop.query(`SELECT 1 FROM visit WHERE customer_id = ${customer}`)).toEqual([]);
    expect(await shop.query(`SELECT 1 FROM customer WHERE customer_id = ${customer}`)).toEqual([]);
  });

  /** Its retry comes now, and not in half a minute. */
  async function due(id: string): Promise<void> {
    await shop.own(
      `UPDATE entity_deletion_requests SET next_attempt_at = clock_timestamp() - interval '1 ms' WHERE id = $1`,
      [id],
    );
  }
});
