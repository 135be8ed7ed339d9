import { sql } from 'kysely';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { describeWithPostgres } from '../../test/support/postgres.js';
import {
  completeAll,
  dump,
  expireLease,
  madeUp,
  openServerRecord,
  plant,
  readableLog,
  type TestRecord,
} from '../../test/support/record.js';
import { endDueHolds, hold } from '../requests/orders.js';
import { RequestRefusedError } from '../requests/request-error.js';
import { readSnapshot } from '../requests/snapshot.js';
import type { Database } from '../storage/database.js';
import { DatabaseUnavailableError } from '../storage/storage-error.js';
import { RegisteredWorkflows } from './registered-workflows.js';
import { work, type WorkerOptions } from './worker.js';
import type { Workflow } from './workflow.js';

describeWithPostgres('a worker', () => {
  let record: TestRecord;
  let database: Database;
  beforeAll(async () => {
    record = await openServerRecord();
    database = record.database;
  });
  afterAll(() => record.close());

  function start(workflows: readonly Workflow[], more: Partial<WorkerOptions> = {}) {
    const { log, lines } = readableLog();
    const stop = new AbortController();
    const done = work({
      database,
      workflows: new RegisteredWorkflows(workflows),
      log,
      signal: stop.signal,
      executorId: 'worker-1',
      pollEvery: 5,
      ...more,
    });
    return { done, stop, lines };
  }

  const statusOf = async (id: string | undefined) => (await readSnapshot(database, id ?? ''))?.request.status;
  const becomes = (id: string | undefined, status: string) =>
    vi.waitFor(async () => expect(await statusOf(id)).toBe(status), { timeout: 50_000, interval: 5 });

  test('takes what becomes due until it is told to stop', async () => {
    const { done, stop } = start([madeUp({ name: 'rolls' })]);
    const [first] = await plant(database, 1, { workflow: 'rolls' });
    await becomes(first, 'completed');
    const [second] = await plant(database, 1, { workflow: 'rolls' });
    await becomes(second, 'completed');
    stop.abort();
    await done;
  });

  test('two workers share what is due: every stage is run once', async () => {
    const ids = await plant(database, 60, { workflow: 'shared' });
    const workers = ['worker-1', 'worker-2'].map((executorId) =>
      start([madeUp({ name: 'shared' })], { executorId, once: true, batch: 7 }),
    );
    await Promise.all(workers.map(({ done }) => done));
    for (const id of ids) {
      const snapshot = await readSnapshot(database, id);
      expect(snapshot?.request).toMatchObject({ status: 'completed', lease_generation: 1 });
      expect(snapshot?.stages.map(({ attempts }) => attempts)).toEqual([1, 1]);
    }
  });

  test('EX-26: leaves alone what only an explicit run executes', async () => {
    const [id] = await plant(database, 1, { workflow: 'by-hand' });
    const before = await dump(database);
    const { done, lines } = start([{ ...madeUp({ name: 'by-hand' }), runBy: 'operator' }], { once: true });
    await done;
    expect(await statusOf(id)).toBe('approved');
    expect(await dump(database)).toEqual(before);
    // It is known: there is nothing to report.
    expect(lines.filter(({ event, workflow }) => event === 'workflow_unregistered' && workflow === 'by-hand')).toEqual(
      [],
    );
  });

  test('EX-27: a version that it does not have is left alone, and reported once for all rounds', async () => {
    const ids = await plant(database, 2, { workflow: 'versioned', version: 9 });
    const before = await dump(database);
    const { done, stop, lines } = start([madeUp({ name: 'versioned' })]);
    const polls = () => record.statements.filter((text) => text.includes('SKIP LOCKED')).length;
    const first = polls();
    await vi.waitFor(() => expect(polls()).toBeGreaterThan(first + 10), { timeout: 50_000, interval: 5 });
    stop.abort();
    await done;
    for (const id of ids) expect(await statusOf(id)).toBe('approved');
    expect(await dump(database)).toEqual(before);
    const reports = lines.filter(
      ({ event, workflow }) => event === 'workflow_unregistered' && workflow === 'versioned',
    );
    expect(reports).toMatchObject([{ workflowVersion: 9, count: 2 }]);
  });

  test('EX-27: an inventory version that it does not have is reported once, not in a loop', async () => {
    const [id] = await plant(database, 1, { workflow: 'unread' });
    const unread: Workflow = {
      ...madeUp({ name: 'unread' }),
      digest: (request) => {
        throw new RequestRefusedError('UNREGISTERED_VERSION', 'not known here', request.id);
      },
    };
    const { done, stop, lines } = start([unread]);
    const reports = () => lines.filter(({ event, requestId }) => event === 'workflow_unregistered' && requestId === id);
    await vi.waitFor(() => expect(reports()).toHaveLength(1), { timeout: 50_000 });
    const claims = () => record.statements.filter((text) => text.includes('WITH due')).length;
    const first = claims();
    await vi.waitFor(() => expect(claims()).toBeGreaterThan(first + 10), { timeout: 50_000, interval: 5 });
    stop.abort();
    await done;
    expect(reports()).toHaveLength(1);
    const snapshot = await readSnapshot(database, id ?? '');
    expect(snapshot?.request).toMatchObject({ status: 'approved', lease_owner: null });
    // At most one claim by each of the worker's two loops.
    expect(snapshot?.request.lease_generation).toBeLessThanOrEqual(2);
  });

  test('WF-30: a hold that ends by its time is over, and the request goes on by itself', async () => {
    const [id] = (await plant(database, 1, { workflow: 'held' })) as [string];
    const order = { requestId: id, orderedBy: 'carl', reason: 'a question' };
    const [other] = (await plant(database, 1, { workflow: 'nobodys' })) as [string];
    // Not due: it stays, whatever others do.
    await database.transaction((tx) => hold(tx, { ...order, requestId: other }, new Date(Date.now() + 86_400_000)));
    await database.transaction((tx) => hold(tx, order, new Date(Date.now() + 86_400_000)));
    await sql`UPDATE ${database.t.orders} SET until = clock_timestamp() WHERE request_id = ${id}::uuid`.execute(
      database.db,
    );
    const { done, stop } = start([madeUp({ name: 'held' })]);
    await becomes(id, 'completed');
    stop.abort();
    await done;
    expect(await statusOf(other)).toBe('held');
    expect(await database.transaction(endDueHolds)).toEqual([]);
  });

  test('a database that goes away for a moment costs no request anything but time', async () => {
    const [id] = (await plant(database, 1, { workflow: 'outage' })) as [string];
    let calls = 0;
    const flaky: Database = {
      ...database,
      transaction: (run) => {
        calls += 1;
        // The second one is the transition after the claim.
        if (calls === 2) return Promise.reject(new DatabaseUnavailableError('away'));
        return database.transaction(run);
      },
    };
    const { done, stop, lines } = start([madeUp({ name: 'outage' })], { database: flaky, concurrency: 1 });
    await vi.waitFor(() => expect(lines.map(({ event }) => event)).toContain('database_unavailable'), {
      timeout: 50_000,
    });
    // Nobody renews it: it runs out, as it does here.
    await expireLease(database, id);
    await becomes(id, 'completed');
    stop.abort();
    await done;
    expect((await readSnapshot(database, id))?.request).toMatchObject({ retry_count: 0, lease_generation: 2 });
  });

  test('a fault of the program ends all of its loops, after their work has settled', async () => {
    const ids = await plant(database, 2, { workflow: 'faulty' });
    let running = 0;
    const knead: Workflow['handlers'][string] = async (runs, context) => {
      running += 1;
      await new Promise((resolve) => setTimeout(resolve, 30));
      running -= 1;
      return completeAll(runs, context);
    };
    const { done } = start([madeUp({ name: 'faulty', handlers: { knead } })], {
      batch: 1,
      observer: {
        ended: () => {
          throw new TypeError('a bug of the observer');
        },
      },
    });
    await expect(done).rejects.toThrow('a bug of the observer');
    expect(running).toBe(0);
    for (const id of ids) expect((await readSnapshot(database, id))?.request.lease_owner).toBeNull();
  });
});
