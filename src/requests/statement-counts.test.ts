import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeWithPostgres } from '../../test/support/postgres.js';
import { madeUp, openServerRecord, plant, readableLog, type TestRecord } from '../../test/support/record.js';
import { RegisteredWorkflows } from '../engine/registered-workflows.js';
import { work } from '../engine/worker.js';
import { block } from './block.js';
import { claimDue } from './claim.js';
import { release } from './release.js';
import { renew } from './renew.js';
import { saveOutcomes } from './save-outcomes.js';
import { saveProgress } from './save-progress.js';
import { readSnapshot } from './snapshot.js';
import { startStages } from './start-stages.js';
import { transition } from './transition.js';

/** Exactly: a statement more, for one request or for many, is a decision and not an accident. */
const EXPECTED = { claim: 1, renew: 1, first: 7, start: 1, progress: 1, save: 1, next: 7, release: 1, block: 1 };

describeWithPostgres('round trips', () => {
  let record: TestRecord;
  beforeAll(async () => {
    record = await openServerRecord();
  });
  afterAll(() => record.close());

  async function counted<T>(counts: Record<string, number>, name: string, work: () => Promise<T>): Promise<T> {
    record.statements.length = 0;
    const result = await work();
    counts[name] = record.statements.length;
    return result;
  }

  test.each([1, 500])('every operation takes the same number of statements for %d requests', async (count) => {
    const { database } = record;
    const workflow = `batch-of-${count}`;
    await plant(database, count, { workflow });
    const rules = new RegisteredWorkflows([madeUp({ name: workflow })]);
    const counts: Record<string, number> = {};
    const claimed = await counted(counts, 'claim', () =>
      claimDue(database, { owner: 'w', limit: 500, workflows: [{ workflow, version: 1 }], except: [] }),
    );
    const leases = claimed.map(({ lease }) => lease);
    expect(leases).toHaveLength(count);
    await counted(counts, 'renew', () => renew(database.aside, leases));
    const items = leases.map((lease) => ({ requestId: lease.requestId, lease, expectedStageId: null }));
    const moved = await counted(counts, 'first', () => database.transaction((tx) => transition(tx, items, rules)));
    const stages = leases.map((lease) => {
      const result = moved.get(lease.requestId);
      return { lease, stageId: result?.kind === 'current' ? result.stage.id : '' };
    });
    await counted(counts, 'start', () => startStages(database, stages));
    await counted(counts, 'progress', () =>
      saveProgress(
        database,
        stages.map((stage) => ({ ...stage, cursor: 1 })),
      ),
    );
    const outcome = { kind: 'completed', result: {} } as const;
    const saved = await counted(counts, 'save', () =>
      saveOutcomes(
        database,
        stages.map((stage) => ({ ...stage, outcome })),
      ),
    );
    expect(saved.size).toBe(count);
    const next = stages.map(({ lease, stageId }) => ({ requestId: lease.requestId, lease, expectedStageId: stageId }));
    await counted(counts, 'next', () => database.transaction((tx) => transition(tx, next, rules)));
    const released = await counted(counts, 'release', () => release(database, leases));
    expect(released.size).toBe(count);
    await counted(counts, 'block', () =>
      block(
        database,
        leases.map((lease) => ({ lease, reason: 'X' })),
      ),
    );
    expect(counts).toEqual(EXPECTED);
  });

  test('a worker takes 500 requests to their end in as many statements as one', async () => {
    const counts: Record<string, number> = {};
    for (const count of [1, 500]) {
      const name = `worked-${count}`;
      const ids = await plant(record.database, count, { workflow: name });
      await counted(counts, name, () =>
        work({
          database: record.database,
          workflows: new RegisteredWorkflows([madeUp({ name })]),
          log: readableLog().log,
          signal: new AbortController().signal,
          executorId: 'w',
          once: true,
          concurrency: 1,
        }),
      );
      for (const id of [ids[0], ids.at(-1)]) {
        expect((await readSnapshot(record.database, id ?? ''))?.request.status).toBe('completed');
      }
    }
    expect(counts['worked-500']).toBe(counts['worked-1']);
  });
});
