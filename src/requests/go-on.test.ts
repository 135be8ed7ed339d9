import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { describeWithPostgres } from '../../test/support/postgres.js';
import {
  dump,
  expireLease,
  madeUp,
  type MadeUp,
  openServerRecord,
  plant,
  type TestRecord,
} from '../../test/support/record.js';
import { RegisteredWorkflows } from '../engine/registered-workflows.js';
import { claimOne } from './claim.js';
import { goOn, type GoOnItem, withSaved } from './go-on.js';
import type { TransitionRules } from './move.js';
import { saveOutcomes, type SaveResult } from './save-outcomes.js';
import { readSnapshot, type Snapshot } from './snapshot.js';
import { transition } from './transition.js';

const rulesOf = (options: MadeUp = {}): TransitionRules => new RegisteredWorkflows([madeUp(options)]);

describeWithPostgres('going on from a saved outcome', () => {
  let record: TestRecord;
  let item: GoOnItem;
  beforeAll(async () => {
    record = await openServerRecord();
  });
  afterAll(() => record.close());
  beforeEach(async () => {
    item = await saved();
  });

  /** A request whose owner has just saved its first stage. */
  async function saved(): Promise<GoOnItem> {
    const { database } = record;
    const [requestId] = (await plant(database, 1)) as [string];
    const { lease } = await database.transaction((tx) => claimOne(tx, requestId, 'worker-1'));
    const moved = await database.transaction((tx) =>
      transition(tx, [{ requestId, lease, expectedStageId: null, begins: true }], rulesOf()),
    );
    const entered = moved.get(requestId);
    if (entered?.kind !== 'current') throw new Error('the first stage was not entered');
    const stageId = entered.stage.id;
    const outcome = { kind: 'completed', result: { n: 1 } } as const;
    const results = await saveOutcomes(database, [{ lease, stageId, outcome }]);
    const known = withSaved(entered.snapshot, stageId, results.get(requestId) as SaveResult);
    return { lease, stageId, known, begins: true };
  }

  const snapshotOf = async ({ lease }: GoOnItem): Promise<Snapshot> =>
    (await readSnapshot(record.database, lease.requestId)) as Snapshot;

  async function refused(change: (id: string) => Promise<unknown>, rules = rulesOf()): Promise<void> {
    await change(item.lease.requestId);
    const before = await dump(record.database);
    expect(await goOn(record.database, [item], rules)).toEqual(new Map());
    expect(await dump(record.database)).toEqual(before);
  }

  test('EX-8: one statement closes the stage with its decision and begins the next; what is known is what is there', async () => {
    record.statements.length = 0;
    const result = (await goOn(record.database, [item], rulesOf())).get(item.lease.requestId);
    expect(record.statements).toHaveLength(1);
    const there = await snapshotOf(item);
    expect(there.stages.find(({ id }) => id === item.stageId)).toMatchObject({
      is_current: false,
      status: 'completed',
      metadata_json: { result: { n: 1 }, transition: { decision: 'next' } },
    });
    if (result?.kind !== 'current') throw new Error('the next stage was not entered');
    expect(result).toMatchObject({ begun: true, stage: { stage: 'bake', status: 'running', attempts: 1 } });
    const comparable = ({ request, stages }: Snapshot) => ({
      status: request.status,
      stages: stages.map(({ started_at: _, ...stage }) => stage).sort((a, b) => (a.id < b.id ? -1 : 1)),
    });
    expect(comparable(result.snapshot)).toEqual(comparable(there));
  });

  test('WF-1: an end and its SQL commit together, or neither does', async () => {
    const failing = rulesOf({ steps: [['knead', null]], end: () => Promise.reject(new Error('the end fails')) });
    const before = await dump(record.database);
    await expect(goOn(record.database, [item], failing)).rejects.toThrow('the end fails');
    expect(await dump(record.database)).toEqual(before);
    const ending = rulesOf({ steps: [['knead', null]], end: async () => undefined });
    expect((await goOn(record.database, [item], ending)).get(item.lease.requestId)).toEqual({
      kind: 'ended',
      status: 'completed',
    });
    expect((await snapshotOf(item)).request).toMatchObject({ status: 'completed', lease_owner: null });
  });

  test('OP-9: not where an order was given meanwhile', () => refused((id) => set(sql`standing_order = 'cancel'`, id)));

  test('EX-15: not with a lease that has expired', () => refused((id) => expireLease(record.database, id)));

  test('EX-15: not with a lease that somebody else has by now', () =>
    refused((id) => set(sql`lease_owner = 'worker-2', lease_generation = lease_generation + 1`, id)));

  test('WF-6: not where the inventory is another by now', () =>
    refused((id) => set(sql`inventory_digest = ${'b'.repeat(64)}`, id)));

  test('EX-13: not from a stage that is no longer current', () =>
    refused((id) =>
      sql`UPDATE ${record.database.t.stages} SET is_current = false WHERE request_id = ${id}::uuid`.execute(
        record.database.db,
      ),
    ));

  test('EX-22: not where the policy throws', () =>
    refused(
      async () => undefined,
      rulesOf({
        decide: () => {
          throw new Error('no answer');
        },
      }),
    ));

  async function set(change: ReturnType<typeof sql>, id: string): Promise<void> {
    await sql`UPDATE ${record.database.t.requests} SET ${change} WHERE id = ${id}::uuid`.execute(record.database.db);
  }
});
