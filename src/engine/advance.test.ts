import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeWithPostgres } from '../../test/support/postgres.js';
import {
  completeAll,
  madeUp,
  type MadeUp,
  openEmbeddedRecord,
  openServerRecord,
  plant,
  readableLog,
  type TestRecord,
} from '../../test/support/record.js';
import type { StageRow } from '../requests/request.js';
import { readSnapshot, type Snapshot } from '../requests/snapshot.js';
import { DatabaseUnavailableError } from '../storage/storage-error.js';
import type { RunEnd } from './advance.js';
import { inChainOrder } from './history.js';
import { RegisteredWorkflows } from './registered-workflows.js';
import { work } from './worker.js';
import type { Handler, Outcome } from './workflow.js';

describe('on PGlite', () => suite(openEmbeddedRecord));
describeWithPostgres('on PostgreSQL', () => suite(openServerRecord));

const NUL_AND_LONE = 'a\u0000b\ud800c';

function answer(outcomeOf: (id: string) => Outcome | undefined): Handler {
  return async (runs) => ({
    outcomes: new Map(runs.flatMap(({ request: { id } }) => ([[id, outcomeOf(id)]] as const).filter(hasOutcome))),
  });
}

function hasOutcome(pair: readonly [string, Outcome | undefined]): pair is readonly [string, Outcome] {
  return pair[1] !== undefined;
}

const done: Outcome = { kind: 'completed', result: {} };

function suite(open: () => Promise<TestRecord>): void {
  let record: TestRecord;
  beforeAll(async () => {
    record = await open();
  });
  afterAll(() => record.close());

  /** Each test has a workflow name of its own, so that it meets its own requests only. */
  let number = 0;
  async function run(
    options: MadeUp,
    count: number,
    more: { signal?: AbortSignal; ids?: (ids: readonly string[]) => void } = {},
  ) {
    number += 1;
    const name = `made-up-${number}`;
    const ids = await plant(record.database, count, { workflow: name });
    more.ids?.(ids);
    const ends = new Map<string, RunEnd>();
    const { log, lines } = readableLog();
    await work({
      database: record.database,
      workflows: new RegisteredWorkflows([madeUp({ ...options, name })]),
      log,
      signal: more.signal ?? new AbortController().signal,
      executorId: 'worker-1',
      once: true,
      concurrency: 1,
      observer: { ended: (id, end) => ends.set(id, end) },
    });
    return { ids, ends, lines };
  }

  const snapshotOf = async (id: string | undefined): Promise<Snapshot> =>
    (await readSnapshot(record.database, id ?? '')) as Snapshot;
  const stagesOf = async (id: string | undefined): Promise<readonly StageRow[]> =>
    inChainOrder((await snapshotOf(id)).stages);

  test('EX-23: a workflow of stages that the store never heard of runs to its end, in batches', async () => {
    const batches: number[] = [];
    const bake: Handler = async (runs, context) => {
      batches.push(runs.length);
      return completeAll(runs, context);
    };
    const { ids, ends } = await run({ handlers: { bake } }, 7);
    expect(batches).toEqual([7]);
    for (const id of ids) {
      expect(ends.get(id)).toEqual({ kind: 'ended', status: 'completed' });
      const stages = await stagesOf(id);
      expect(stages.map(({ stage, status, is_current }) => [stage, status, is_current])).toEqual([
        ['knead', 'completed', false],
        ['bake', 'completed', false],
      ]);
      expect(stages[0]?.metadata_json.previous_stage_id).toBeNull();
      expect(stages[1]?.metadata_json.previous_stage_id).toBe(stages[0]?.id);
      const { request } = await snapshotOf(id);
      expect(request).toMatchObject({ status: 'completed', lease_owner: null, lease_expires_at: null });
      expect(request.completed_at).toBeInstanceOf(Date);
    }
  });

  test('EX-5: a handler gets the whole row, its inputs, and the history as the transition left it', async () => {
    const seen: unknown[] = [];
    const bake: Handler = async (runs, context) => {
      for (const { stage, history, request } of runs) {
        seen.push([stage.id, stage.metadata_json.inputs['step'], request.status]);
        seen.push(history.map((past) => [past.stage, past.status, past.transition?.['decision']]));
      }
      return completeAll(runs, context);
    };
    const { ids } = await run({ handlers: { bake } }, 1);
    const [, second] = await stagesOf(ids[0]);
    expect(seen).toEqual([[second?.id, 1, 'running'], [['knead', 'completed', 'next']]]);
  });

  test('a handler that forgets a request fails that one alone', async () => {
    let forgotten = '';
    const { ids, ends } = await run({ handlers: { knead: answer((id) => (id === forgotten ? undefined : done)) } }, 5, {
      ids: (all) => (forgotten = all[2] as string),
    });
    for (const id of ids) {
      const { request } = await snapshotOf(id);
      if (id !== forgotten) expect(request.status).toBe('completed');
      else expect(request).toMatchObject({ status: 'retry_wait', retry_count: 1, lease_owner: null });
    }
    expect((await snapshotOf(forgotten)).request.last_error).toMatch(/^HANDLER_FORGOT/);
    expect(ends.get(forgotten)).toMatchObject({ kind: 'waiting', status: 'retry_wait' });
  });

  test('a handler that throws for one of many is halved until that one is alone', async () => {
    let bad = '';
    const batches: number[] = [];
    const knead: Handler = async (runs, context) => {
      batches.push(runs.length);
      if (runs.some(({ request }) => request.id === bad)) throw new TypeError('jane@example.com');
      return completeAll(runs, context);
    };
    const { ids } = await run({ handlers: { knead } }, 9, { ids: (all) => (bad = all[6] as string) });
    expect(batches[0]).toBe(9);
    expect(batches.length).toBeLessThanOrEqual(2 * 9);
    for (const id of ids) {
      const { request } = await snapshotOf(id);
      expect(request.status).toBe(id === bad ? 'retry_wait' : 'completed');
    }
    const { request, stages } = await snapshotOf(bad);
    expect(request.last_error).toBe('UNEXPECTED: TypeError');
    expect(stages[0]).toMatchObject({ status: 'failed', is_current: true, last_error: 'UNEXPECTED: TypeError' });
  });

  test('what a batch has saved is there when it is called again in halves', async () => {
    const seen: unknown[] = [];
    const knead: Handler = async (runs, context) => {
      for (const { stage } of runs) seen.push([runs.length, stage.metadata_json.intent, stage.metadata_json.cursor]);
      if (runs.length === 1) return completeAll(runs, context);
      await context.save(new Map(runs.map(({ request }) => [request.id, { intent: 'counted', cursor: 1 }])));
      await context.save(new Map(runs.map(({ request }) => [request.id, { cursor: 2 }])));
      throw new Error('one of them is bad');
    };
    await run({ handlers: { knead } }, 2);
    expect(seen).toEqual([
      [2, undefined, undefined],
      [2, undefined, undefined],
      [1, 'counted', 2],
      [1, 'counted', 2],
    ]);
  });

  test('the database of a target that is away stops those that need it, and is not taken for Expunge’s own', async () => {
    let bad = '';
    const knead: Handler = async (runs, context) => {
      if (runs.some(({ request }) => request.id === bad)) throw new DatabaseUnavailableError('the shop is away');
      return completeAll(runs, context);
    };
    const { ids } = await run({ handlers: { knead } }, 4, { ids: (all) => (bad = all[1] as string) });
    for (const id of ids) expect((await snapshotOf(id)).request.status).toBe(id === bad ? 'waiting' : 'completed');
    // Waiting is not failing.
    expect((await snapshotOf(bad)).request).toMatchObject({ retry_count: 0, last_error: null });
  });

  test('WF-28: a handler that loses a connection to Expunge’s own database goes on, and nothing has failed', async () => {
    const seen: unknown[] = [];
    const knead: Handler = async (runs, context) => {
      seen.push(runs.map(({ stage }) => stage.metadata_json.intent));
      if (seen.length > 1) return completeAll(runs, context);
      await context.save(new Map(runs.map(({ request }) => [request.id, { intent: 'counted' }])));
      throw new DatabaseUnavailableError('a connection was lost');
    };
    const { ids } = await run({ handlers: { knead } }, 2);
    expect(seen).toEqual([
      [undefined, undefined],
      ['counted', 'counted'],
    ]);
    for (const id of ids) {
      const { request, stages } = await snapshotOf(id);
      expect(request.status).toBe('completed');
      expect(stages[0]).toMatchObject({ last_error: null, attempts: 1 });
    }
  });

  test('text and JSON with NUL and lone surrogates are made storable, and stop nobody', async () => {
    let odd = '';
    let late = '';
    const { ids } = await run(
      {
        handlers: {
          knead: answer((id) => (id === odd ? { kind: 'completed', result: { [NUL_AND_LONE]: NUL_AND_LONE } } : done)),
          bake: answer((id) =>
            id === late ? { kind: 'failed', error: NUL_AND_LONE.repeat(2000), retryable: true } : done,
          ),
        },
      },
      3,
      { ids: (all) => ([odd, late] = [all[0] as string, all[1] as string]) },
    );
    expect((await stagesOf(odd))[0]?.metadata_json.result).toEqual({ 'a\uFFFDb\uFFFDc': 'a\uFFFDb\uFFFDc' });
    const { request } = await snapshotOf(late);
    expect(request.last_error?.startsWith('a\uFFFDb\uFFFDc')).toBe(true);
    expect(Buffer.byteLength(request.last_error ?? '')).toBeLessThanOrEqual(4096);
    expect((await snapshotOf(ids[2])).request.status).toBe('completed');
  });

  test('a commit that fails for one of many blocks that one, with its SQLSTATE, and undoes only its outcome', async () => {
    let bad = '';
    const knead: Handler = async (runs) => ({
      outcomes: new Map(runs.map(({ request }) => [request.id, done])),
      commit: async (tx, saved) => {
        for (const id of saved) {
          await sql`INSERT INTO ${tx.t.events} (request_id, event) VALUES (${id}::uuid, 'kneaded')`.execute(tx.db);
          if (id === bad) await sql`SELECT 1 / (${0}::integer)`.execute(tx.db);
        }
      },
    });
    const { ids, ends, lines } = await run({ handlers: { knead } }, 6, { ids: (all) => (bad = all[4] as string) });
    for (const id of ids) {
      const { request } = await snapshotOf(id);
      const { rows } = await sql`
        SELECT 1 FROM ${record.database.t.events} WHERE request_id = ${id}::uuid AND event = 'kneaded'`.execute(
        record.database.db,
      );
      expect([request.status, rows.length]).toEqual(id === bad ? ['blocked', 0] : ['completed', 1]);
    }
    const { request, stages } = await snapshotOf(bad);
    expect(request.blocked_reason).toMatch(/^22012/);
    expect(request).toMatchObject({ lease_owner: null, lease_expires_at: null });
    expect(stages[0]).toMatchObject({ status: 'running', is_current: true });
    expect(stages[0]?.metadata_json.result).toBeUndefined();
    expect(ends.get(bad)?.kind).toBe('error');
    expect(lines.filter(({ event }) => event === 'request_blocked')).toHaveLength(1);
  });

  test('a terminal transition whose SQL fails for one of many blocks that one alone', async () => {
    let bad = '';
    const { ids } = await run(
      {
        end: async (tx, endings) => {
          if (endings.some(({ requestId }) => requestId === bad)) await sql`SELECT 1 / (${0}::integer)`.execute(tx.db);
        },
      },
      4,
      { ids: (all) => (bad = all[3] as string) },
    );
    for (const id of ids) expect((await snapshotOf(id)).request.status).toBe(id === bad ? 'blocked' : 'completed');
    // EX-18: what the last handler said is saved, and is what goes on after an unblock.
    expect((await stagesOf(bad)).at(-1)).toMatchObject({ status: 'completed', is_current: true });
  });

  test('a result that is no JSON blocks its request alone', async () => {
    let bad = '';
    const { ids } = await run(
      {
        handlers: {
          knead: answer((id) => (id === bad ? { kind: 'completed', result: { n: 1n as never } } : done)),
        },
      },
      3,
      { ids: (all) => (bad = all[0] as string) },
    );
    for (const id of ids) expect((await snapshotOf(id)).request.status).toBe(id === bad ? 'blocked' : 'completed');
  });

  test('a visit that cannot finish closes as completed, and the policy goes on', async () => {
    const { ids } = await run(
      {
        steps: [
          ['visit', 'one'],
          ['visit', 'two'],
          ['visit', 'three'],
        ],
        visits: ['visit'],
        handlers: {
          visit: async (runs) => ({
            outcomes: new Map(
              runs.map(({ request, stage }): [string, Outcome] => {
                if (stage.target_community_id === 'one')
                  return [request.id, { kind: 'postponed', why: 'TARGET_UNAVAILABLE', delaySeconds: 30 }];
                if (stage.target_community_id === 'two')
                  return [request.id, { kind: 'failed', error: 'TARGET_FAILED', retryable: true }];
                return [request.id, done];
              }),
            ),
          }),
        },
      },
      1,
    );
    const { request } = await snapshotOf(ids[0]);
    expect(request).toMatchObject({ status: 'completed', retry_count: 0, last_error: null });
    const stages = await stagesOf(ids[0]);
    expect(stages.map(({ status }) => status)).toEqual(['completed', 'completed', 'completed']);
    const [one, two] = stages.map(({ metadata_json }) => metadata_json.result);
    expect(one).toMatchObject({ state: 'postponed', why: 'TARGET_UNAVAILABLE' });
    const until = new Date(one?.['until'] as string);
    expect(until.getTime() - (stages[0]?.finished_at?.getTime() ?? 0)).toBe(30_000);
    expect(two).toEqual({ state: 'failed', error: 'TARGET_FAILED', retryable: true });
  });

  test('a stage that is no visit stays current when it is postponed, and is not counted as failed', async () => {
    const { ids, ends } = await run(
      { handlers: { knead: answer(() => ({ kind: 'postponed', why: 'RISING', delaySeconds: 90 })) } },
      1,
    );
    const { request, stages } = await snapshotOf(ids[0]);
    expect(request).toMatchObject({ status: 'waiting', retry_count: 0, last_error: null, lease_owner: null });
    expect(stages[0]).toMatchObject({ status: 'pending', is_current: true, finished_at: null, attempts: 1 });
    expect(ends.get(ids[0] ?? '')).toMatchObject({ kind: 'waiting', status: 'waiting', why: 'RISING' });
  });

  test.each([0, -5, Number.NaN, Number.POSITIVE_INFINITY])(
    'what is postponed by %d seconds waits all the same: it would be claimed over and over',
    async (delaySeconds) => {
      let calls = 0;
      const knead: Handler = async (runs, context) => {
        calls += 1;
        return answer(() => ({ kind: 'postponed', why: 'RISING', delaySeconds }))(runs, context);
      };
      const { ids } = await run({ handlers: { knead } }, 1);
      expect(calls).toBe(1);
      const { request, now } = await snapshotOf(ids[0]);
      expect(request.status).toBe('waiting');
      // Within a second of now at the least, and not the year 292278994.
      expect(request.next_attempt_at?.getTime()).toBeGreaterThan(request.created_at.getTime() + 900);
      expect(request.next_attempt_at?.getTime()).toBeLessThan(now.getTime() + 3_700_000);
    },
  );

  test('a revised inventory is saved as the next revision and waits for approval', async () => {
    const inventory = { version: 1, rows: 12 };
    const { ids, ends } = await run(
      {
        handlers: {
          knead: answer(() => ({ kind: 'revised', why: 'DRIFT', inventory, inventoryDigest: 'a'.repeat(64) })),
        },
      },
      1,
    );
    const { request, inventories, stages } = await snapshotOf(ids[0]);
    expect(request).toMatchObject({ status: 'awaiting_approval', inventory_digest: 'a'.repeat(64), lease_owner: null });
    expect(inventories.map(({ revision }) => revision)).toEqual([1, 2]);
    expect(inventories[1]?.inventory).toEqual(inventory);
    expect(stages[0]).toMatchObject({ status: 'pending', is_current: true });
    expect(ends.get(ids[0] ?? '')).toMatchObject({ kind: 'waiting', status: 'awaiting_approval', why: 'DRIFT' });
  });

  test('EX-22: a policy that throws leaves its request as it was; a worker blocks it, the others go on', async () => {
    let bad = '';
    const { ids } = await run(
      {
        decide: (input) => {
          if (input.requestId === bad) throw new RangeError('jane@example.com');
          return { kind: 'end', status: 'completed', transition: {} };
        },
      },
      3,
      { ids: (all) => (bad = all[1] as string) },
    );
    for (const id of ids) expect((await snapshotOf(id)).request.status).toBe(id === bad ? 'blocked' : 'completed');
    const { request, stages } = await snapshotOf(bad);
    expect(stages).toEqual([]);
    expect(request.blocked_reason).toBe('UNEXPECTED: RangeError');
  });

  test.each([
    ['a promise', Promise.resolve({ kind: 'end' })],
    [
      'a wait without a time',
      {
        kind: 'enter',
        stage: 'knead',
        place: null,
        inputs: {},
        transition: {},
        wait: { status: 'waiting', until: null, why: 'X' },
      },
    ],
    ['a stage without a handler', { kind: 'enter', stage: 'toString', place: null, inputs: {}, transition: {} }],
  ])('EX-22: a policy that answers %s is not obeyed', async (_name, decision) => {
    const { ids } = await run({ decide: () => decision as never }, 1);
    const { request, stages } = await snapshotOf(ids[0]);
    expect(stages).toEqual([]);
    expect(request.status).toBe('blocked');
    expect(request.blocked_reason).toMatch(/^RECORD_INTEGRITY/);
  });

  test('EX-24: intents and cursors are saved under the lease, beside each other', async () => {
    const knead: Handler = async (runs, context) => {
      const id = runs[0]?.request.id ?? '';
      expect(await context.save(new Map([[id, { intent: { key: 'k' } }]]))).toEqual(new Set([id]));
      expect(await context.save(new Map([[id, { cursor: 17 }]]))).toEqual(new Set([id]));
      return completeAll(runs, context);
    };
    const { ids } = await run({ handlers: { knead } }, 1);
    expect((await stagesOf(ids[0]))[0]?.metadata_json).toMatchObject({ intent: { key: 'k' }, cursor: 17, result: {} });
  });

  test('EX-20: at the signal nothing new begins, what was said is saved, and ownership is given back', async () => {
    const stop = new AbortController();
    let first = '';
    const calls: number[] = [];
    const knead: Handler = async (runs) => {
      calls.push(runs.length);
      stop.abort();
      // It answers for one and leaves the others: they were interrupted, which is no failure.
      return { outcomes: new Map([[first, done]]) };
    };
    const { ids, ends } = await run({ handlers: { knead } }, 3, {
      signal: stop.signal,
      ids: (all) => (first = all[0] as string),
    });
    expect(calls).toEqual([3]);
    for (const id of ids) {
      expect(ends.get(id)).toEqual({ kind: 'interrupted' });
      const { request, stages } = await snapshotOf(id);
      expect(request).toMatchObject({ status: 'running', retry_count: 0, lease_owner: null });
      expect(stages[0]).toMatchObject({ is_current: true, status: id === first ? 'completed' : 'running' });
    }
  });

  test('EX-20: a batch that throws at the signal is not called again in halves', async () => {
    const stop = new AbortController();
    const calls: number[] = [];
    const knead: Handler = async (runs, { signal }) => {
      calls.push(runs.length);
      stop.abort();
      signal.throwIfAborted();
      return { outcomes: new Map() };
    };
    const { ids } = await run({ handlers: { knead } }, 8, { signal: stop.signal });
    expect(calls).toEqual([8]);
    for (const id of ids) expect((await snapshotOf(id)).request).toMatchObject({ status: 'running', retry_count: 0 });
  });
}
