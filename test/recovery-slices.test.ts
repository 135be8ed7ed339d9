/** A process killed in the middle of a long erase: between two slices, and between a delete's commit and its saved cursor. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { verifyReceipts } from '../src/evidence/verify-receipts.js';
import { decodeReceipts } from './support/chinook-deletion.js';
import { until } from './support/cli.js';
import { describeWithPostgres } from './support/postgres.js';
import { expireLease } from './support/record.js';
import { openTwoStores, type TwoStores } from './support/two-stores.js';

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

const child = fileURLToPath(new URL('./support/erasure-child.mjs', import.meta.url));

/** Of one customer, beside the two that the shop gives everybody; more than one slice holds. */
const MORE_VISITS = 7_000;

describeWithPostgres('WF-15, WF-20, WF-28: a long erase', () => {
  let stores: TwoStores;
  /** What the receipts of a run that nobody disturbed say. */
  let plain: unknown;
  beforeAll(async () => {
    stores = await openTwoStores();
    await stores.shop.query(`
      INSERT INTO customer SELECT i, 'Name', 'kept' || i || '@example.com' FROM generate_series(10, 12) i;
      INSERT INTO visit SELECT 100000 * c + i, c FROM generate_series(1, 3) c, generate_series(1, ${MORE_VISITS}) i;
      INSERT INTO visit VALUES (1, 10) ON CONFLICT DO NOTHING`);
    const id = await stores.approved(1);
    expect(await resume(id)).toEqual({ kind: 'ended', status: 'completed' });
    plain = await countsOf(id);
  });
  afterAll(() => stores.close());

  const resume = (id: string) =>
    stores.client.requests.run(id, { executorId: 'successor', signal: new AbortController().signal });

  function start(id: string, point: object) {
    const parameters = [stores.where, stores.shop.keys.worker].map((value) => JSON.stringify(value));
    const started = spawn(process.execPath, [child, ...parameters, id, JSON.stringify(point)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exited = once(started, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
    return {
      paused: once(started.stdout, 'data'),
      async kill() {
        started.kill('SIGKILL');
        expect(await exited).toEqual([null, 'SIGKILL']);
        await expireLease(stores.database, id);
      },
    };
  }

  const visitsOf = async (customer: number): Promise<number> =>
    (await stores.shop.query('SELECT FROM visit WHERE customer_id = $1', [customer])).length;
  const cursorOf = async (id: string): Promise<unknown> =>
    ((await stores.client.requests.show(id)).stages.at(-1)?.metadata_json.cursor as { erase?: unknown } | undefined)
      ?.erase;

  async function countsOf(id: string): Promise<unknown> {
    const exported = await stores.client.exportReceipts(id);
    expect(await verifyReceipts(exported, stores.shop.keys.verification)).toMatchObject({ verified: true });
    return decodeReceipts(exported).map(({ target, places }) => ({
      target,
      places: places?.map(({ place, counted, removed, left }) => ({ place, counted, removed, left })),
    }));
  }

  /** Everything that is not of these customers. */
  async function othersRows(customer: number): Promise<unknown> {
    return stores.shop.query(
      `SELECT 'visit ' || v::text AS row FROM visit v WHERE customer_id <> $1
       UNION ALL SELECT 'customer ' || c::text FROM customer c WHERE customer_id <> $1
       UNION ALL SELECT 'invoice ' || i::text FROM invoice i WHERE customer_id <> $1
       UNION ALL SELECT 'session ' || s::text FROM session s WHERE customer_id <> $1 ORDER BY 1`,
      [customer],
    );
  }

  async function expectUndisturbed(id: string, customer: number, others: unknown): Promise<void> {
    expect(await resume(id)).toEqual({ kind: 'ended', status: 'completed' });
    expect(await visitsOf(customer)).toBe(0);
    expect(await othersRows(customer)).toEqual(others);
    expect(await countsOf(id)).toEqual(plain);
  }

  test('killed between the commit of a slice and its saved cursor', async () => {
    const others = await othersRows(2);
    const id = await stores.approved(2);
    const running = start(id, { at: 'after-erase', target: 'operational' });
    await running.paused;
    await running.kill();
    expect(await cursorOf(id)).toBeUndefined();
    const left = await visitsOf(2);
    expect(left).toBeLessThan(MORE_VISITS);
    expect(left).toBeGreaterThan(0);
    await expectUndisturbed(id, 2, others);
  });

  test('killed between two slices, with the first one saved', async () => {
    const others = await othersRows(3);
    const id = await stores.approved(3);
    // The second slice has to wait for a row of it.
    const blocker = new pg.Client(stores.shop.url);
    await blocker.connect();
    await blocker.query('BEGIN');
    await blocker.query('SELECT FROM visit WHERE no = $1 FOR UPDATE', [300_000 + MORE_VISITS]);
    const running = start(id, { at: 'nowhere' });
    await until(async () => (await cursorOf(id)) !== undefined);
    await running.kill();
    await blocker.query('ROLLBACK');
    await blocker.end();
    const left = await visitsOf(3);
    expect(left).toBeLessThan(MORE_VISITS);
    expect(left).toBeGreaterThan(0);
    await expectUndisturbed(id, 3, others);
  });
});
