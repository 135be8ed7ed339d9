/** The recovery points of the executor's contract, for erasures: a process is killed at each of them, and another one goes on. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { verifyReceipts } from '../src/evidence/verify-receipts.js';
import { describeWithPostgres } from './support/postgres.js';
import { expireLease, makeDue } from './support/record.js';
import { openTwoStores, type TwoStores } from './support/two-stores.js';

// A test here starts several processes, each of which takes seconds on a machine that is busy.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

const child = fileURLToPath(new URL('./support/erasure-child.mjs', import.meta.url));

interface Point {
  readonly at: string;
  readonly stage?: string;
  readonly target?: string;
}

describeWithPostgres('recovery of erasures', () => {
  let stores: TwoStores;
  /** The receipts of a run that nobody disturbed, without what differs from run to run. */
  let plain: unknown;
  beforeAll(async () => {
    stores = await openTwoStores();
    // Somebody stays to the end: the statistics of an emptied table are another thing to say in a receipt.
    await stores.shop.query(`
      INSERT INTO customer VALUES (10, 'Name 10', 'person10@example.com');
      INSERT INTO session VALUES ('ten', 10);
      INSERT INTO invoice VALUES (100, 10, 'Street 10');
      INSERT INTO invoice_line VALUES (100, 100, 'thing');
      INSERT INTO visit VALUES (100, 10);
      INSERT INTO search_log VALUES (100, 100, 'words')`);
    const id = await stores.approved(1);
    expect(await resume(id)).toEqual({ kind: 'ended', status: 'completed' });
    plain = await receiptsOf(id);
    await expectGone(1);
  });
  afterAll(() => stores.close());

  const resume = (id: string) =>
    stores.client.requests.run(id, { executorId: 'successor', signal: new AbortController().signal });

  /** Runs the request in a process that comes to the point and is killed there; its lease is then as good as over. */
  async function killAt(id: string, point: Point): Promise<void> {
    const parameters = [
      JSON.stringify(stores.where),
      JSON.stringify(stores.shop.keys.worker),
      id,
      JSON.stringify(point),
    ];
    const started = spawn(process.execPath, [child, ...parameters], { stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = once(started, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
    const paused = once(createInterface(started.stdout), 'line');
    const first = await Promise.race([paused, exited]);
    expect(first, 'the process ended and did not come to its point').toEqual(['paused']);
    started.kill('SIGKILL');
    expect(await exited).toEqual([null, 'SIGKILL']);
    // The last transaction gives ownership back by itself.
    if (point.at !== 'after-end') await expireLease(stores.database, id);
  }

  async function expectGone(customer: number): Promise<void> {
    const left = await stores.shop.query<{ count: number }>(
      `SELECT (SELECT count(*) FROM customer WHERE customer_id = $1)::int
            + (SELECT count(*) FROM session WHERE customer_id = $1)::int
            + (SELECT count(*) FROM invoice WHERE customer_id = $1)::int
            + (SELECT count(*) FROM invoice_line l WHERE NOT EXISTS (SELECT FROM invoice i WHERE i.invoice_id = l.invoice_id))::int
            + (SELECT count(*) FROM visit WHERE customer_id = $1)::int
            + (SELECT count(*) FROM search_log s WHERE NOT EXISTS (SELECT FROM visit v WHERE v.no = s.visit_no))::int AS count`,
      [customer],
    );
    expect(left).toEqual([{ count: 0 }]);
    expect(await stores.files()).not.toContainEqual(expect.stringContaining(`/customers/${customer}/`));
  }

  /** Verified, and without ids, times, hashes and references. */
  async function receiptsOf(id: string): Promise<unknown> {
    const exported = await stores.client.exportReceipts(id);
    expect(await verifyReceipts(exported, stores.shop.keys.verification)).toMatchObject({ verified: true });
    const { receipts } = JSON.parse(exported) as { receipts: readonly string[] };
    return receipts.map((jws) => {
      const payload = Buffer.from(jws.split('.')[1] ?? '', 'base64url').toString();
      const differing = /_id$|_at$|_hash$|digest$|^subject_reference$|^approved$|^approvals$|^at$/;
      return JSON.parse(payload, (key, value: unknown) => (differing.test(key) ? undefined : value)) as unknown;
    });
  }

  const points: readonly (Point & { readonly title: string; readonly customer: number })[] = [
    { title: 'before the first transition', customer: 2, at: 'before-first-transition' },
    { title: 'during a handler, before its first delete', customer: 3, at: 'before-erase', target: 'operational' },
    {
      title: 'after a delete has committed, before its cursor is saved',
      customer: 4,
      at: 'after-erase',
      target: 'operational',
    },
    { title: 'during the second handler', customer: 5, at: 'before-erase', target: 'artifacts' },
    {
      title: 'after saved success, before the transition',
      customer: 6,
      at: 'after-save',
      stage: 'erase',
      target: 'operational',
    },
    {
      title: 'after the transition committed',
      customer: 7,
      at: 'after-transition',
      stage: 'erase',
      target: 'artifacts',
    },
    { title: 'after the terminal commit', customer: 8, at: 'after-end' },
  ];

  test.each(points)('WF-20, WF-28, EX-16, EX-18: killed $title', async ({ title, customer, ...point }) => {
    void title;
    const id = await stores.approved(customer);
    await killAt(id, point);
    expect(await resume(id)).toEqual({ kind: 'ended', status: 'completed' });
    await expectGone(customer);
    expect(await receiptsOf(id)).toEqual(plain);
  });

  test('WF-20, WF-28, EX-17: killed after a saved failure', async () => {
    const customer = 9;
    const id = await stores.approved(customer);
    await stores.shop.query(`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`);
    await stores.shop.query('CREATE TRIGGER refuse BEFORE DELETE ON visit FOR EACH ROW EXECUTE FUNCTION refuse()');
    await killAt(id, { at: 'after-save', stage: 'erase', target: 'operational' });
    // The failure is known: the other target is done meanwhile, and this one waits for its time.
    expect(await resume(id)).toMatchObject({ kind: 'waiting', status: 'retry_wait' });
    expect(await stores.client.get(id)).toMatchObject({ status: 'running', targets: { artifacts: 'complete' } });
    await stores.shop.query('DROP TRIGGER refuse ON visit');
    await makeDue(stores.database, id);
    expect(await resume(id)).toEqual({ kind: 'ended', status: 'completed' });
    await expectGone(customer);
    // The other target came first, and so its receipt did.
    const byTarget = (receipts: unknown) =>
      (receipts as readonly { target?: string }[])
        .map((receipt) => ({ ...receipt, sequence: 0 }))
        .sort((one, other) => (String(one.target) < String(other.target) ? -1 : 1));
    expect(byTarget(await receiptsOf(id))).toEqual(byTarget(plain));
  });
});
