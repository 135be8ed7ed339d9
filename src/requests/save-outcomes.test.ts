import { sql } from 'kysely';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeWithPostgres } from '../../test/support/postgres.js';
import { dump, makeDue, openServerRecord, plant, type TestRecord } from '../../test/support/record.js';
import { claimOne } from './claim.js';
import type { Lease } from './request.js';
import { type SavedOutcome, saveOutcomes } from './save-outcomes.js';
import { readSnapshot, type Snapshot } from './snapshot.js';
import { startStages } from './start-stages.js';
import { transition } from './transition.js';

describeWithPostgres('on PostgreSQL', () => suite(openServerRecord));

function suite(open: () => Promise<TestRecord>): void {
  let record: TestRecord;
  beforeAll(async () => {
    record = await open();
  });
  afterAll(() => record.close());

  const planted = async (): Promise<string> => (await plant(record.database, 1))[0] as string;
  const snapshotOf = async (id: string): Promise<Snapshot> => (await readSnapshot(record.database, id)) as Snapshot;

  /** Claims it and starts its stage, as an attempt does. */
  async function attempt(id: string): Promise<{ lease: Lease; stageId: string }> {
    return record.database.transaction(async (tx) => {
      const { lease } = await claimOne(tx, id, 'worker-1');
      const isNew = (await readSnapshot(tx, id))?.stages.length === 0;
      await transition(tx, [{ requestId: id, lease, expectedStageId: null }], {
        decide: () =>
          isNew ? { kind: 'enter', stage: 'knead', place: null, inputs: {}, transition: {} } : { kind: 'resume' },
      });
      const stageId = (await readSnapshot(tx, id))?.stages[0]?.id ?? '';
      await startStages(tx, [{ lease, stageId }]);
      return { lease, stageId };
    });
  }

  async function save(id: string, outcome: SavedOutcome) {
    const { lease, stageId } = await attempt(id);
    return (await saveOutcomes(record.database, [{ lease, stageId, outcome }])).get(id);
  }

  test('EX-17: failures are tried again after 30 s, then twice as long each time; the 8th in a row blocks', async () => {
    const id = await planted();
    const delays: number[] = [];
    for (let failure = 1; failure <= 7; failure += 1) {
      const saved = await save(id, { kind: 'failed', error: `FAILURE_${failure}`, retryable: true });
      expect(saved).toMatchObject({ status: 'retry_wait', released: true, last_error: `FAILURE_${failure}` });
      const { request, stages } = await snapshotOf(id);
      expect(request).toMatchObject({ retry_count: failure, lease_owner: null, lease_expires_at: null });
      const [stage] = stages;
      expect(stage).toMatchObject({
        status: 'failed',
        is_current: true,
        attempts: failure,
        last_error: `FAILURE_${failure}`,
      });
      delays.push(((request.next_attempt_at?.getTime() ?? 0) - (stage?.finished_at?.getTime() ?? 0)) / 1000);
      await makeDue(record.database, id);
    }
    expect(delays[0]).toBe(30);
    for (const [index, delay] of delays.entries()) {
      expect(delay).toBeGreaterThanOrEqual(30 * 2 ** index * 0.9);
      expect(delay).toBeLessThanOrEqual(30 * 2 ** index * 1.1);
    }
    expect(await save(id, { kind: 'failed', error: 'FAILURE_8', retryable: true })).toMatchObject({
      status: 'blocked',
    });
    const { request } = await snapshotOf(id);
    expect(request).toMatchObject({
      retry_count: 8,
      next_attempt_at: null,
      blocked_reason: 'FAILURE_8',
      lease_owner: null,
    });
    expect(request.blocked_at).toBeInstanceOf(Date);
  });

  test('a permanent failure blocks at once', async () => {
    const id = await planted();
    expect(await save(id, { kind: 'failed', error: 'TARGET_BLOCKED', retryable: false })).toMatchObject({
      status: 'blocked',
    });
    expect((await snapshotOf(id)).request).toMatchObject({ retry_count: 1, blocked_reason: 'TARGET_BLOCKED' });
  });

  test('EX-17: the same row resumes, and a success clears the retry state with its transition', async () => {
    const id = await planted();
    await save(id, { kind: 'failed', error: 'X', retryable: true });
    await makeDue(record.database, id);
    const { lease, stageId } = await attempt(id);
    const [resumed] = (await snapshotOf(id)).stages;
    expect(resumed).toMatchObject({ id: stageId, status: 'running', attempts: 2, finished_at: null });
    await saveOutcomes(record.database, [{ lease, stageId, outcome: { kind: 'completed', result: {} } }]);
    expect((await snapshotOf(id)).request).toMatchObject({ status: 'running', retry_count: 1, last_error: 'X' });
    await record.database.transaction((tx) =>
      transition(tx, [{ requestId: id, lease, expectedStageId: stageId }], {
        decide: () => ({ kind: 'enter', stage: 'bake', place: null, inputs: {}, transition: {} }),
      }),
    );
    expect((await snapshotOf(id)).request).toMatchObject({ retry_count: 0, last_error: null, next_attempt_at: null });
    // The log is append-only: what went wrong stays in it.
    const { rows } = await sql<{ detail: unknown }>`
      SELECT detail FROM ${record.database.t.events} WHERE request_id = ${id}::uuid AND event = 'failed'`.execute(
      record.database.db,
    );
    expect(rows).toMatchObject([{ detail: { why: 'X', failures: 1 } }]);
  });

  test('EX-6: a stage that is not running has nothing to save', async () => {
    const id = await planted();
    const { lease, stageId } = await attempt(id);
    const outcome = { kind: 'completed', result: {} } as const;
    await saveOutcomes(record.database, [{ lease, stageId, outcome }]);
    const before = await dump(record.database);
    expect(await saveOutcomes(record.database, [{ lease, stageId, outcome }])).toEqual(new Map());
    expect(await dump(record.database)).toEqual(before);
  });

  test('EX-6: SQL that is committed with the outcome is undone with it, and a failing save propagates', async () => {
    const id = await planted();
    const { lease, stageId } = await attempt(id);
    const before = await dump(record.database);
    const save = record.database.transaction(async (tx) => {
      await saveOutcomes(tx, [{ lease, stageId, outcome: { kind: 'completed', result: {} } }]);
      throw new Error('the receipt cannot be saved');
    });
    await expect(save).rejects.toThrow('the receipt cannot be saved');
    expect(await dump(record.database)).toEqual(before);
  });
}
