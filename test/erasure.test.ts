/** Whole erasures through the client, on PostgreSQL. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../src/client/client.js';
import type { RunEnd } from '../src/engine/advance.js';
import { verifyReceipts } from '../src/evidence/verify-receipts.js';
import { isExpungeError } from '../src/observe/expunge-error.js';
import { files } from '../src/targets/files/index.js';
import { postgres } from '../src/targets/postgres/index.js';
import { decodeReceipts } from './support/chinook-deletion.js';
import { startPostgresProxy } from './support/postgres-proxy.js';
import { fileTree } from './support/file-tree.js';
import { describeWithPostgres } from './support/postgres.js';
import { openSmallShop, rowsOfOne, shopTables, type SmallShop } from './support/small-shop.js';

describeWithPostgres('an erasure', () => {
  let shop: SmallShop;
  let client: Client;
  beforeAll(async () => {
    shop = await openSmallShop();
    client = await shop.client();
  });
  afterAll(() => shop.close());

  const { signal } = new AbortController();
  const run = (id: string, by = client): Promise<RunEnd> => by.requests.run(id, { executorId: 'worker-a', signal });

  async function approved(customerId: string, by = client): Promise<string> {
    const { id, inventory_digest } = await by.submit({ customerId }, { requestedBy: 'anna' });
    await by.requests.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest });
    return id;
  }

  async function refusal(work: Promise<unknown>): Promise<string> {
    const error: unknown = await work.then(
      () => new Error('It was not refused.'),
      (reason: unknown) => reason,
    );
    return error instanceof Error && 'code' in error ? String(error.code) : String(error);
  }

  test('WF-0: shows one of four words at each step, of the whole and of the target', async () => {
    const words: string[] = [];
    const note = async (id: string): Promise<void> => {
      const { status, targets } = await client.get<'operational'>(id);
      words.push(`${status}/${targets.operational}`);
    };
    const { id, inventory_digest } = await client.submit({ customerId: '1' }, { requestedBy: 'anna' });
    await note(id);
    await client.requests.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest });
    await note(id);
    for (;;) {
      const end = await client.requests.run(id, { executorId: 'worker-a', signal, budget: 1 });
      await note(id);
      if (end.kind === 'ended') break;
    }
    expect(words).toEqual([
      ...['pending/pending', 'pending/pending'],
      ...['running/running', 'running/running', 'running/complete', 'running/complete', 'running/complete'],
      'complete/complete',
    ]);
  });

  test('WF-20: an identifier that matches nothing completes, and the receipt says that nothing was there', async () => {
    const id = await approved('4711');
    const before = await shop.rows();
    expect(await run(id)).toEqual({ kind: 'ended', status: 'completed' });
    const exported = await client.exportReceipts(id);
    expect(await verifyReceipts(exported, shop.keys.verification)).toMatchObject({ verified: true });
    const [receipt] = decodeReceipts(exported);
    expect(receipt).toMatchObject({ kind: 'target', target: 'operational', state: 'absent' });
    expect(receipt?.places?.map(({ counted }) => counted)).toEqual(Object.keys(rowsOfOne).map(() => 0));
    expect(await shop.rows()).toEqual(before);
    expect(await client.status({ customerId: '4711' })).toMatchObject({ status: 'DELETED' });
  });

  test('WF-1: a repeated idempotency key gives the same request, also when it has ended; WF-2: it is kept as a hash', async () => {
    const options = { requestedBy: 'anna', idempotencyKey: 'close-account-of-person2@example.com' };
    const first = await client.submit({ customerId: '2' }, options);
    const again = await client.submit({ customerId: '2' }, options);
    expect(again).toEqual(first);
    expect(await refusal(client.submit({ customerId: '3' }, options))).toBe('IDEMPOTENCY_CONFLICT');
    const [row] = await shop.own<{ idempotency_key: string }>(
      'SELECT idempotency_key FROM entity_deletion_requests WHERE id = $1',
      [first.id],
    );
    expect(row?.idempotency_key).toMatch(/^idem1\.ref-[0-9a-f]{12}\.[A-Za-z0-9_-]{43}$/);
    const { id, inventory_digest } = first;
    await client.requests.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest });
    expect(await run(id)).toEqual({ kind: 'ended', status: 'completed' });
    expect(await client.submit({ customerId: '2' }, options)).toMatchObject({ id, status: 'completed' });
    expect(await refusal(client.submit({ customerId: '3' }, options))).toBe('IDEMPOTENCY_CONFLICT');
  });

  test('WF-2: nobody gives an order about a request in the name of its subject', async () => {
    await shop.query(`INSERT INTO customer VALUES (100, 'C', 'person100@example.com')`);
    const named = await shop.client({
      targets: {
        operational: postgres({
          url: shop.url,
          tables: { search_log: { key: { words: 'customerId' }, action: 'delete' } },
        }),
      },
    });
    const { id, inventory_digest } = await named.submit(
      { customerId: 'cust-ab', email: 'person100@example.com' },
      { requestedBy: 'anna' },
    );
    const before = await shop.own('SELECT r::text FROM entity_deletion_requests r ORDER BY 1');
    const until = new Date('2999-01-01T00:00:00Z');
    for (const by of ['cust-ab', ' cust-ab ', 'CUST-AB', 'Cust-AB']) {
      const order = { requestId: id, by, reason: 'asked to' };
      const attempts = [
        () => named.submit({ customerId: 'cust-ab' }, { requestedBy: by }),
        () => named.requests.approve({ requestId: id, approvedBy: by, inventoryDigest: inventory_digest }),
        () => named.requests.hold({ ...order, until }),
        () => named.requests.endHold(order),
        () => named.requests.cancel(order),
        () => named.requests.unblock(order),
        () => named.requests.run(id, { executorId: by, signal }),
        () => named.revise(id, by),
      ];
      for (const attempt of attempts) expect(await refusal(attempt())).toBe('INVALID_OPERATOR');
    }
    // A worker's keys open the request, and so every identifier can be compared.
    expect(await refusal(named.revise(id, 'person100@example.com'))).toBe('INVALID_OPERATOR');
    expect(await refusal(named.submit({ customerId: 'cust-ab' }, { requestedBy: 'anna', reasonCode: 'CUST-AB' }))).toBe(
      'INVALID_ORDER',
    );
    expect(await shop.own('SELECT r::text FROM entity_deletion_requests r ORDER BY 1')).toEqual(before);
    const events = await shop.own<{ row: string }>('SELECT e::text AS row FROM deletion_events e');
    expect(events.map(({ row }) => row.toLowerCase()).join()).not.toContain('cust-ab');
  });

  test('WF-2: also where space around it is a part of the identifier', async () => {
    const { id, inventory_digest } = await client.submit({ customerId: ' cust-cd ' }, { requestedBy: 'anna' });
    const approval = { requestId: id, approvedBy: ' cust-cd ', inventoryDigest: inventory_digest };
    expect(await refusal(client.requests.approve(approval))).toBe('INVALID_OPERATOR');
  });

  test('WF-2: also when the request has ended, and any order about it is refused', async () => {
    const id = await approved('cust-ef');
    expect(await run(id)).toEqual({ kind: 'ended', status: 'completed' });
    expect(await refusal(client.revise(id, 'cust-ef'))).toBe('INVALID_OPERATOR');
    expect(await refusal(client.requests.unblock({ requestId: id, by: 'cust-ef', reason: 'x' }))).toBe(
      'INVALID_OPERATOR',
    );
    expect(JSON.stringify(await client.requests.show(id))).not.toContain('cust-ef');
  });

  test('OP-10: a refused submit is in the log, at the request that stands in its way', async () => {
    const { id } = await client.submit({ customerId: '6' }, { requestedBy: 'anna' });
    expect(await refusal(client.submit({ customerId: '6' }, { requestedBy: 'carl' }))).toBe('LIVE_REQUEST_EXISTS');
    const { events } = await client.requests.show(id);
    expect(events.at(-1)).toMatchObject({
      event: 'refused',
      actor: 'carl',
      detail: { code: 'LIVE_REQUEST_EXISTS' },
    });
    await client.requests.cancel({ requestId: id, by: 'carl', reason: 'submitted twice' });
    expect(await refusal(client.revise(id, 'carl'))).toBe('WRONG_STATUS');
  });

  test('an id that is none is refused without a word to the database', async () => {
    for (const id of ['person7@example.com', '', "' OR true --"]) {
      const asks = [
        () => client.get(id),
        () => client.revise(id, 'anna'),
        () => client.exportReceipts(id),
        () => client.requests.show(id),
      ];
      for (const ask of asks) {
        const error: unknown = await ask().catch((reason: unknown) => reason);
        expect(isExpungeError(error, 'UNKNOWN_REQUEST')).toBe(true);
        if (id !== '') expect(String(error)).not.toContain(id);
      }
    }
  });

  test('WF-13, WF-17: of a target that is down in the gate, what others need is sealed before its sessions end', async () => {
    const proxy = await startPostgresProxy(shop.url);
    const tree = await fileTree(['sessions']);
    const [session] = await shop.query<{ token: string }>('SELECT token FROM session WHERE customer_id = 7');
    await tree.write(`sessions/${session?.token}.log`, 'seen');
    await tree.write('sessions/other.log', 'seen');
    const both = await shop.client({
      targets: {
        operational: postgres({ url: proxy.url, tables: shopTables, timeouts: { connect: 1_000 } }),
        logs: files({
          root: tree.root,
          paths: ['sessions/{token}.log'],
          locators: { token: { target: 'operational', place: 'session', column: 'token' } },
        }),
      },
    });
    const id = await approved('7', both);
    proxy.set('down');
    expect(await run(id, both)).toMatchObject({ kind: 'waiting', status: 'waiting' });
    proxy.set('none');
    await shop.own(
      `UPDATE entity_deletion_requests SET next_attempt_at = clock_timestamp() - interval '1 ms' WHERE id = $1`,
      [id],
    );
    // What waits for the locators is visited again in a moment.
    let end = await run(id, both);
    if (end.kind === 'waiting') {
      await shop.own(
        `UPDATE entity_deletion_requests SET next_attempt_at = clock_timestamp() - interval '1 ms' WHERE id = $1`,
        [id],
      );
      end = await run(id, both);
    }
    expect(end).toEqual({ kind: 'ended', status: 'completed' });
    expect(await tree.list()).toEqual(['sessions/', 'sessions/other.log']);
    const places = decodeReceipts(await both.exportReceipts(id)).flatMap((receipt) => receipt.places ?? []);
    expect(Object.fromEntries(places.map(({ place, removed }) => [place, removed]))).toEqual({
      ...rowsOfOne,
      'sessions/{token}.log': 1,
    });
    await both.close();
    await Promise.all([proxy.close(), tree.close()]);
  });
});
