import { sql } from 'kysely';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { describeWithPostgres } from '../../test/support/postgres.js';
import {
  completeAll,
  expireLease,
  madeUp,
  openServerRecord,
  plant,
  readableLog,
  type TestRecord,
} from '../../test/support/record.js';
import { Counters } from '../observe/counters.js';
import { claimOne } from '../requests/claim.js';
import { release } from '../requests/release.js';
import { LEASE_SECONDS, type Lease } from '../requests/request.js';
import { readSnapshot } from '../requests/snapshot.js';
import { DatabaseUnavailableError } from '../storage/storage-error.js';
import type { Database } from '../storage/database.js';
import { advance } from './advance.js';
import { LeaseKeeper } from './lease-keeper.js';
import { RegisteredWorkflows } from './registered-workflows.js';
import type { Handler, Workflow } from './workflow.js';

/** For a deadline that is this many milliseconds away: when the claim would have been sent. */
const sentFor = (milliseconds: number) => performance.now() - LEASE_SECONDS * 1000 + milliseconds;

describeWithPostgres('the keeper of leases', () => {
  let record: TestRecord;
  let database: Database;
  beforeAll(async () => {
    record = await openServerRecord();
    database = record.database;
  });
  afterAll(() => record.close());

  async function claimed(owner = 'worker-1', id?: string): Promise<Lease> {
    const [planted] = id === undefined ? await plant(database, 1) : [id];
    return (await database.transaction((tx) => claimOne(tx, planted ?? '', owner))).lease;
  }

  function keeping(renewEvery = 3_600_000) {
    const { log, lines } = readableLog();
    const counters = new Counters();
    const keeper = new LeaseKeeper({ database, log, counters, renewEvery });
    onTestFinished(() => keeper.close());
    return { keeper, log, lines, lost: () => counters.total('expunge_leases_lost_total') };
  }

  const expiryOf = async ({ requestId }: Lease): Promise<Date | null> =>
    (await readSnapshot(database, requestId))?.request.lease_expires_at ?? null;

  function run(leases: readonly Lease[], keeper: LeaseKeeper, workflow: Workflow, on: Database = database) {
    return advance(leases, {
      database: on,
      workflows: new RegisteredWorkflows([workflow]),
      keeper,
      log: readableLog().log,
      signal: new AbortController().signal,
      budget: 1,
      onMisfit: 'leave',
    });
  }

  test('EX-14: renews what it keeps, and moves its own deadline with it', async () => {
    const lease = await claimed();
    const before = await expiryOf(lease);
    const { keeper } = keeping(20);
    keeper.keep([lease], sentFor(5_000));
    await vi.waitFor(async () => expect(await expiryOf(lease)).not.toEqual(before), { timeout: 30_000 });
    await vi.waitFor(
      async () => expect((await expiryOf(lease))?.getTime()).toBeGreaterThan((before?.getTime() ?? 0) + 5_500),
      {
        timeout: 30_000,
      },
    );
    expect(keeper.owns(lease)).toBe(true);
  });

  test('EX-14: a deadline that passes ends the work at once, also while no renewal comes back', async () => {
    const lease = await claimed();
    const { keeper, lines, lost } = keeping();
    keeper.keep([lease], sentFor(300));
    expect(keeper.owns(lease)).toBe(true);
    expect(lost()).toBe(0);
    await new Promise<void>((resolve) => keeper.watch([lease], resolve));
    expect(keeper.owns(lease)).toBe(false);
    expect(lines.map(({ event }) => event)).toEqual(['lease_lost']);
    expect(lost()).toBe(1);
  });

  test('EX-14: whoever watches a batch is told once, when the last of its leases is lost', async () => {
    const leases = [await claimed(), await claimed()];
    const { keeper } = keeping();
    keeper.keep(leases, sentFor(0));
    const [told, ended] = [vi.fn(), vi.fn()];
    keeper.watch(leases, told);
    keeper.watch(leases, ended)();
    for (const [lost, lease] of leases.entries()) {
      expect(told).toHaveBeenCalledTimes(0);
      expect(keeper.owns(lease)).toBe(false);
      expect(keeper.owns(lease)).toBe(false);
      expect(told).toHaveBeenCalledTimes(lost);
    }
    expect(ended).not.toHaveBeenCalled();
  });

  test('EX-14: a thread that was blocked past its deadline knows it, and saves nothing', async () => {
    const lease = await claimed();
    const { keeper } = keeping();
    keeper.keep([lease], sentFor(60_000));
    const owned: boolean[] = [];
    const knead: Handler = async (runs, context) => {
      // A minute's work in a moment: then the thread hangs, and timers with it.
      keeper.keep([lease], sentFor(100));
      owned.push(context.owns(lease.requestId));
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 150);
      owned.push(context.owns(lease.requestId));
      return completeAll(runs, context);
    };
    const ends = await run([lease], keeper, madeUp({ handlers: { knead } }));
    expect(owned).toEqual([true, false]);
    expect(ends.get(lease.requestId)).toMatchObject({ kind: 'error', error: { code: 'LEASE_LOST' } });
    const stage = (await readSnapshot(database, lease.requestId))?.stages[0];
    expect(stage).toMatchObject({ status: 'running', is_current: true });
    expect(stage?.metadata_json.result).toBeUndefined();
  });

  test('EX-15: what a stale owner says is refused, and its successor’s rows stay as they are', async () => {
    const lease = await claimed();
    const { keeper } = keeping();
    keeper.keep([lease], performance.now());
    let second: Lease | undefined;
    const saved: unknown[] = [];
    const knead: Handler = async (runs, context) => {
      await expireLease(database, lease.requestId);
      second = await claimed('worker-2', lease.requestId);
      saved.push(await context.save(new Map([[lease.requestId, { intent: 'to erase' }]])));
      return completeAll(runs, context);
    };
    const ends = await run([lease], keeper, madeUp({ handlers: { knead } }));
    expect(saved).toEqual([new Set()]);
    expect(ends.get(lease.requestId)).toMatchObject({ kind: 'error', error: { code: 'LEASE_LOST' } });
    const snapshot = await readSnapshot(database, lease.requestId);
    expect(snapshot?.request).toMatchObject({ lease_owner: 'worker-2', lease_generation: second?.generation });
    expect(snapshot?.stages[0]?.metadata_json).not.toHaveProperty('intent');
    const { rows } = await sql<{ actor: string }>`
      SELECT actor FROM ${database.t.events}
       WHERE request_id = ${lease.requestId}::uuid AND event = 'stale_write_refused'`.execute(database.db);
    expect(rows).toEqual([{ actor: 'worker-1' }]);
  });

  test('EX-14: handlers of a batch that is lost as a whole are told to stop, and are not called again in halves', async () => {
    const leases = [await claimed(), await claimed()];
    const { keeper } = keeping(20);
    keeper.keep(leases, performance.now());
    let calls = 0;
    const knead: Handler = async (_runs, { signal }) => {
      calls += 1;
      for (const lease of leases) await expireLease(database, lease.requestId);
      // A renewal finds out.
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      throw new Error('stopped');
    };
    const ends = await run(leases, keeper, madeUp({ handlers: { knead } }));
    expect(calls).toBe(1);
    for (const { requestId } of leases) expect(ends.get(requestId)).toMatchObject({ error: { code: 'LEASE_LOST' } });
  });

  test('a renewal that crosses a write draws no conclusion from it', async () => {
    const lease = await claimed();
    const { keeper, lines } = keeping(5);
    keeper.keep([lease], performance.now());
    await keeper.writing([lease], async () => {
      await release(database, [lease]);
      // Several renewals find the lease gone, while the write has not come back.
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(keeper.owns(lease)).toBe(true);
    });
    keeper.drop([lease]);
    expect(lines).toEqual([]);
  });

  test('EX-15: a lease is lost, and counted once, when a write under it is refused', async () => {
    const [taken, kept] = [await claimed(), await claimed()] as [Lease, Lease];
    const { keeper, lines, lost } = keeping();
    keeper.keep([taken, kept], performance.now());
    const knead: Handler = async (runs, context) => {
      await expireLease(database, taken.requestId);
      return completeAll(runs, context);
    };
    const ends = await run([taken, kept], keeper, madeUp({ handlers: { knead } }));
    expect(ends.get(taken.requestId)).toMatchObject({ kind: 'error', error: { code: 'LEASE_LOST' } });
    expect(ends.get(kept.requestId)).toMatchObject({ kind: 'budget' });
    expect(lines).toMatchObject([{ event: 'lease_lost', requestId: taken.requestId }]);
    expect(lost()).toBe(1);
  });

  test('a lease that somebody else has is lost when a renewal finds out', async () => {
    const lease = await claimed();
    const { keeper, lines } = keeping(20);
    keeper.keep([lease], performance.now());
    await expireLease(database, lease.requestId);
    await new Promise<void>((resolve) => keeper.watch([lease], resolve));
    expect(lines).toMatchObject([{ event: 'lease_lost', requestId: lease.requestId, leaseGeneration: 1 }]);
  });

  test('two claims of one request by the same worker are two leases', async () => {
    const first = await claimed();
    const { keeper } = keeping();
    keeper.keep([first], sentFor(-1));
    await expireLease(database, first.requestId);
    const second = await claimed('worker-1', first.requestId);
    keeper.keep([second], performance.now());
    expect([keeper.owns(first), keeper.owns(second)]).toEqual([false, true]);
    keeper.drop([first]);
    expect(keeper.owns(second)).toBe(true);
  });

  test('no renewal outlives close', async () => {
    const lease = await claimed();
    const { keeper } = keeping(1);
    keeper.keep([lease], performance.now());
    const first = await expiryOf(lease);
    await vi.waitFor(async () => expect(await expiryOf(lease)).not.toEqual(first), { timeout: 30_000 });
    await keeper.close();
    const last = await expiryOf(lease);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await expiryOf(lease)).toEqual(last);
    expect(keeper.owns(lease)).toBe(false);
  });

  test('work that cannot go on is ended when all of it has settled, and keeps no lease', async () => {
    const [bread, cake] = [await claimed(), await claimed()] as [Lease, Lease];
    const { keeper } = keeping();
    keeper.keep([bread, cake], performance.now());
    const isCake = (id: string) => id === cake.requestId;
    let finishCake = (): void => undefined;
    const cakeStarted = new Promise<void>((started) => {
      finishCake = started;
    });
    let bakedLast = '';
    const workflow = madeUp({
      decide: (input) => ({
        kind: 'enter',
        stage: 'knead',
        place: isCake(input.requestId) ? 'cake' : 'bread',
        inputs: {},
        transition: {},
      }),
      handlers: {
        knead: async (runs, context) => {
          if (isCake(runs[0]?.request.id ?? '')) {
            await cakeStarted;
            bakedLast = 'cake';
            return completeAll(runs, context);
          }
          bakedLast = 'bread';
          const away = () => Promise.reject(new DatabaseUnavailableError('away'));
          // The other one is finished a moment after this one has failed.
          setTimeout(finishCake, 50);
          return { ...(await completeAll(runs, context)), commit: away };
        },
      },
    });
    await expect(run([bread, cake], keeper, workflow)).rejects.toThrow('away');
    expect(bakedLast).toBe('cake');
    expect([keeper.owns(bread), keeper.owns(cake)]).toEqual([false, false]);
    expect((await readSnapshot(database, cake.requestId))?.stages[0]?.status).toBe('completed');
  });
});
