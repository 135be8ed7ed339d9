import { sql } from 'kysely';
import { v7 as uuidv7 } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeWithPostgres } from '../../test/support/postgres.js';
import { dump, madeUp, openServerRecord, plant, type TestRecord } from '../../test/support/record.js';
import { RegisteredWorkflows } from '../engine/registered-workflows.js';
import { claimOne } from './claim.js';
import type { Lease } from './request.js';
import { saveOutcomes } from './save-outcomes.js';
import { LONGEST_HISTORY, readSnapshot, type Snapshot } from './snapshot.js';
import { startStages } from './start-stages.js';
import type { TransitionResult, TransitionRules } from './move.js';
import { transition } from './transition.js';

describeWithPostgres('on PostgreSQL', () => suite(openServerRecord));

function suite(open: () => Promise<TestRecord>): void {
  let record: TestRecord;
  beforeAll(async () => {
    record = await open();
  });
  afterAll(() => record.close());

  const rules = new RegisteredWorkflows([madeUp()]);

  async function claimed(): Promise<{ id: string; lease: Lease }> {
    const [id] = (await plant(record.database, 1)) as [string];
    return { id, lease: (await record.database.transaction((tx) => claimOne(tx, id, 'worker-1'))).lease };
  }

  async function move(
    lease: Lease,
    expectedStageId: string | null = null,
    by: TransitionRules = rules,
  ): Promise<TransitionResult> {
    const results = await record.database.transaction((tx) =>
      transition(tx, [{ requestId: lease.requestId, lease, expectedStageId }], by),
    );
    return results.get(lease.requestId) as TransitionResult;
  }

  const snapshotOf = async (id: string): Promise<Snapshot> => (await readSnapshot(record.database, id)) as Snapshot;

  /** A request whose first stage is completed, and its transition not yet made. */
  async function completed(): Promise<{ id: string; lease: Lease; stageId: string }> {
    const { id, lease } = await claimed();
    const stageId = stageOf(await move(lease));
    await startStages(record.database, [{ lease, stageId }]);
    await saveOutcomes(record.database, [{ lease, stageId, outcome: { kind: 'completed', result: { n: 1 } } }]);
    return { id, lease, stageId };
  }

  function stageOf(result: TransitionResult): string {
    if (result.kind !== 'current') throw new Error(`a stage was expected and not ${result.kind}`);
    return result.stage.id;
  }

  const errorOf = (result: TransitionResult): unknown => (result.kind === 'error' ? result.error : result);

  test('EX-3: the first transition creates the initial stage and sets the parent running', async () => {
    const { id, lease } = await claimed();
    expect((await snapshotOf(id)).request.status).toBe('approved');
    const stageId = stageOf(await move(lease));
    const { request, stages } = await snapshotOf(id);
    expect(request.status).toBe('running');
    expect(stages).toMatchObject([
      { id: stageId, stage: 'knead', status: 'pending', is_current: true, started_at: null, attempts: 0 },
    ]);
    expect(stages[0]?.metadata_json).toEqual({
      inputs: { step: 0, inventory_digest: request.inventory_digest },
      previous_stage_id: null,
    });
  });

  test('EX-4: a started request without a stage is an error, and gets no second beginning', async () => {
    const { id, lease } = await claimed();
    await sql`UPDATE ${record.database.t.requests} SET status = 'running' WHERE id = ${id}::uuid`.execute(
      record.database.db,
    );
    const before = await dump(record.database);
    expect(errorOf(await move(lease))).toMatchObject({ code: 'RECORD_INTEGRITY', requestId: id });
    expect(await dump(record.database)).toEqual(before);
  });

  test('EX-7: a saved success is completed and stays current until the transition', async () => {
    const { id, stageId } = await completed();
    const { stages } = await snapshotOf(id);
    expect(stages[0]).toMatchObject({
      id: stageId,
      status: 'completed',
      is_current: true,
      metadata_json: { result: { n: 1 } },
    });
    expect(stages[0]?.finished_at).toBeInstanceOf(Date);
  });

  test('EX-8: a transition closes, decides and inserts together', async () => {
    const { id, lease, stageId } = await completed();
    const nextId = stageOf(await move(lease, stageId));
    const { stages } = await snapshotOf(id);
    expect(stages.find((stage) => stage.id === stageId)).toMatchObject({
      is_current: false,
      metadata_json: { transition: { decision: 'next', next: { stage: 'bake', place: 'oven' } } },
    });
    expect(stages.find((stage) => stage.id === nextId)).toMatchObject({
      stage: 'bake',
      target_community_id: 'oven',
      is_current: true,
      metadata_json: { previous_stage_id: stageId },
    });
  });

  test('EX-8: where the successor cannot be inserted, the completed row stays current', async () => {
    const { id, lease, stageId } = await completed();
    const { db, schema, t } = record.database;
    const name = sql.id(schema, `refuse_${id.replaceAll('-', '')}`);
    await sql`CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`.execute(
      db,
    );
    await sql`CREATE TRIGGER refuse BEFORE INSERT ON ${t.stages} FOR EACH ROW EXECUTE FUNCTION ${name}()`.execute(db);
    try {
      const before = await dump(record.database);
      await expect(move(lease, stageId)).rejects.toMatchObject({ code: 'P0001' });
      expect(await dump(record.database)).toEqual(before);
    } finally {
      await sql`DROP TRIGGER refuse ON ${t.stages}`.execute(db);
    }
    expect((await move(lease, stageId)).kind).toBe('current');
  });

  test('EX-8: a stage that is named as completed and is not, is not given out again', async () => {
    const { id, lease } = await claimed();
    const stageId = stageOf(await move(lease));
    const before = await dump(record.database);
    expect(errorOf(await move(lease, stageId))).toMatchObject({ code: 'RECORD_INTEGRITY', requestId: id });
    expect(await dump(record.database)).toEqual(before);
  });

  test('EX-13: a row that is no longer current, or of another request, is never left', async () => {
    const { lease, stageId } = await completed();
    const other = await completed();
    await move(lease, stageId);
    const before = await dump(record.database);
    expect(await move(lease, stageId)).toEqual({ kind: 'stale' });
    expect(await move(other.lease, stageId)).toEqual({ kind: 'stale' });
    expect(await dump(record.database)).toEqual(before);
  });

  test('EX-13: after a restart the current row of the database is the truth', async () => {
    const { lease } = await completed();
    expect(await move(lease)).toMatchObject({ kind: 'current', stage: { stage: 'bake' } });
    // And what a crash left unfinished is resumed.
    expect(await move(lease)).toMatchObject({ kind: 'current', stage: { stage: 'bake' } });
  });

  test('EX-22: a decision function that throws leaves everything as it was', async () => {
    const { lease, stageId } = await completed();
    const before = await dump(record.database);
    const failure = new RangeError('a bug');
    const result = await move(lease, stageId, {
      decide: () => {
        throw failure;
      },
    });
    expect(result).toEqual({ kind: 'error', error: failure });
    expect(await dump(record.database)).toEqual(before);
  });

  test('EX-25: an inventory that does not have its digest stops the request', async () => {
    const { id, lease, stageId } = await completed();
    const { db, t } = record.database;
    await sql`ALTER TABLE ${t.inventories} DISABLE TRIGGER append_only`.execute(db);
    await sql`UPDATE ${t.inventories} SET inventory = '{"version": 1, "more": true}' WHERE request_id = ${id}::uuid`.execute(
      db,
    );
    await sql`ALTER TABLE ${t.inventories} ENABLE TRIGGER append_only`.execute(db);
    const before = await dump(record.database);
    const error = errorOf(await move(lease, stageId));
    expect(error).toMatchObject({ code: 'RECORD_INTEGRITY' });
    expect(String(error)).toContain('does not have its stored digest');
    expect(await dump(record.database)).toEqual(before);
  });

  test('EX-12: the 10,000th stage is the last: the next one is refused, and nothing changed', async () => {
    const { id, lease } = await claimed();
    const ids = Array.from({ length: LONGEST_HISTORY }, () => uuidv7());
    const { request } = await snapshotOf(id);
    const { db, t } = record.database;
    await sql`
      INSERT INTO ${t.stages} (id, request_id, stage, status, is_current, attempts, metadata_json)
      SELECT ids.id, ${id}::uuid, 'knead', 'completed', ids.n = ${LONGEST_HISTORY}::integer, 1,
             jsonb_build_object('inputs', jsonb_build_object('inventory_digest', ${request.inventory_digest}::text),
                                'result', '{}'::jsonb, 'previous_stage_id', lag(ids.id) OVER (ORDER BY ids.n))
             || CASE WHEN ids.n < ${LONGEST_HISTORY}::integer
                     THEN '{"transition": {"next": {"stage": "knead", "place": null}}}'::jsonb ELSE '{}'::jsonb END
        FROM jsonb_array_elements_text(${JSON.stringify(ids)}::text::jsonb) WITH ORDINALITY AS x (text_id, n)
       CROSS JOIN LATERAL (SELECT x.text_id::uuid AS id, x.n) ids`.execute(db);
    await sql`UPDATE ${t.requests} SET status = 'running' WHERE id = ${id}::uuid`.execute(db);
    const again = new RegisteredWorkflows([
      madeUp({ decide: () => ({ kind: 'enter', stage: 'knead', place: null, inputs: {}, transition: {} }) }),
    ]);
    const counts = async () =>
      (
        await sql<{ stages: number; status: string }>`
        SELECT (SELECT count(*)::integer FROM ${t.stages} WHERE request_id = ${id}::uuid) AS stages, r.status, r.xmin::text
          FROM ${t.requests} r WHERE r.id = ${id}::uuid`.execute(db)
      ).rows;
    const before = await counts();
    const error = errorOf(await move(lease, ids.at(-1), again));
    expect(error).toMatchObject({ code: 'RECORD_INTEGRITY' });
    expect(String(error)).toContain('more than 10000 stages');
    expect(await counts()).toEqual(before);
    // It may end there.
    const end = new RegisteredWorkflows([
      madeUp({ decide: () => ({ kind: 'end', status: 'completed', transition: {} }) }),
    ]);
    expect(await move(lease, ids.at(-1), end)).toEqual({ kind: 'ended', status: 'completed' });
  });

  test('a request that ends or waits gives ownership back in the same statement', async () => {
    const { id, lease, stageId } = await completed();
    const until = new Date('2099-01-01T00:00:00Z');
    const wait = { status: 'waiting', until, why: 'SETTLING' } as const;
    const result = await move(lease, stageId, {
      decide: () => ({ kind: 'enter', stage: 'bake', place: null, inputs: {}, transition: {}, wait }),
    });
    expect(result).toEqual({ kind: 'waiting', ...wait });
    expect((await snapshotOf(id)).request).toMatchObject({
      ...{ status: 'waiting', next_attempt_at: until, lease_owner: null, lease_expires_at: null, lease_generation: 1 },
    });
  });
}
