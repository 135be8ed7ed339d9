/** One target down, at each position, from the start and after the gate: the other completes first, and it finishes by itself. */
import { rename } from 'node:fs/promises';
import { afterEach, expect, test, vi } from 'vitest';
import { type PostgresProxy, type ProxyFault, startPostgresProxy } from './support/postgres-proxy.js';
import { describeWithPostgres } from './support/postgres.js';
import { makeDue } from './support/record.js';
import { openTwoStores, type TwoStores, type TwoStoresOptions } from './support/two-stores.js';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 });

type Name = 'operational' | 'artifacts';

describeWithPostgres('WF-29: one target down', () => {
  let stores: TwoStores;
  let proxy: PostgresProxy;
  let id: string;

  async function open(options: TwoStoresOptions): Promise<void> {
    stores = await openTwoStores({
      ...options,
      shopUrl: async (direct) => {
        proxy = await startPostgresProxy(direct);
        return proxy.url;
      },
    });
    id = await stores.approved(4);
  }
  afterEach(async () => {
    proxy.set('none');
    await stores.close();
    await proxy.close();
  });

  /** The worker's loop, until nothing is due any more. */
  const work = () =>
    stores.client.requests.work({ executorId: 'worker', signal: new AbortController().signal, once: true });

  async function gate(): Promise<void> {
    const end = await stores.client.requests.run(id, {
      executorId: 'gate',
      signal: new AbortController().signal,
      budget: 1,
    });
    expect(end.kind).toBe('budget');
  }

  async function breakTarget(name: Name, fault: ProxyFault = 'down'): Promise<() => Promise<void>> {
    if (name === 'artifacts') {
      await rename(stores.root, `${stores.root}-away`);
      return () => rename(`${stores.root}-away`, stores.root);
    }
    proxy.set(fault);
    return async () => proxy.set('none');
  }

  /** The fault has ended: what is due goes on by itself, however often it takes. */
  async function finish(): Promise<void> {
    for (let round = 0; round < 20; round += 1) {
      await makeDue(stores.database, id);
      await work();
      if ((await stores.client.get(id)).status === 'complete') return;
    }
    expect(await stores.client.get(id)).toMatchObject({ status: 'complete' });
  }

  async function waiting() {
    const { request } = await stores.client.requests.show(id);
    const { targets, status } = await stores.client.get<Name>(id);
    const next = (await stores.client.requests.show(id)).stages.at(-1);
    return { status: request.status, public: status, targets, next: next?.target_community_id };
  }

  const other: Readonly<Record<Name, Name>> = { operational: 'artifacts', artifacts: 'operational' };
  const places = (['operational', 'artifacts'] as const).flatMap((down) =>
    [false, true].flatMap((filesFirst) =>
      (['from the start', 'after the gate'] as const).map((when) => ({ down, filesFirst, when })),
    ),
  );

  test.each(places)('$down, $when, files first: $filesFirst', async ({ down, filesFirst, when }) => {
    // What is named by the other target's rows needs it until the gate; the test below has that case.
    await open({ filesFirst, withLocators: when === 'after the gate' });
    if (when === 'after the gate') await gate();
    const mend = await breakTarget(down);
    await work();
    const seen = await waiting();
    expect(seen).toMatchObject({ status: 'waiting', public: 'running', next: down });
    expect(seen.targets[other[down]]).toBe('complete');
    expect(seen.targets[down]).not.toBe('complete');
    await mend();
    await finish();
    expect((await stores.files()).filter((file) => file.includes('/customers/4/'))).toEqual([]);
    expect(await stores.shop.query('SELECT 1 FROM customer WHERE customer_id = 4')).toEqual([]);
  });

  test('WF-17: files that are named by what only the other target knows wait for it, and nothing is lost', async () => {
    await open({ withLocators: true });
    const before = await stores.files();
    const mend = await breakTarget('operational');
    await work();
    expect(await waiting()).toMatchObject({
      status: 'waiting',
      targets: { operational: 'running', artifacts: 'running' },
    });
    expect(await stores.files()).toEqual(before);
    await mend();
    await finish();
    // The export and both invoices of the customer.
    expect(before.length - (await stores.files()).length).toBe(3);
  });

  test('a target that accepts and never answers', async () => {
    await open({ withLocators: false });
    const mend = await breakTarget('operational', 'slow');
    await work();
    expect(await waiting()).toMatchObject({
      status: 'waiting',
      next: 'operational',
      targets: { artifacts: 'complete' },
    });
    const counted = (name: string) => stores.client.counters.snapshot().filter((sample) => sample.name === name);
    const unavailable = { target: 'operational', code: 'TARGET_UNAVAILABLE' };
    expect(counted('expunge_target_failures_total')).toMatchObject([{ labels: unavailable }]);
    // What the engine counts stands beside it.
    expect(counted('expunge_stages_total').map(({ labels }) => labels['stage'])).toContain('erase');
    await mend();
    await finish();
  });

  test('a target that fails half of its calls comes to its end by trying again', async () => {
    await open({ withLocators: true });
    proxy.set('half');
    await work();
    expect(await stores.client.get(id)).not.toMatchObject({ status: 'failed' });
    proxy.set('none');
    await finish();
  });
});
