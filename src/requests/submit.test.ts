import { v7 as uuidv7 } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeWithPostgres } from '../../test/support/postgres.js';
import { dump, openServerRecord, type TestRecord } from '../../test/support/record.js';
import { readSnapshot } from './snapshot.js';
import { type NewRequest, submit } from './submit.js';

function request(change: Partial<NewRequest>): NewRequest {
  return {
    id: uuidv7(),
    workflow: 'made-up',
    workflowVersion: 1,
    target: null,
    subjectReference: null,
    inventory: { version: 1 },
    inventoryDigest: 'd'.repeat(64),
    requestedBy: 'anna',
    reasonCode: null,
    idempotencyKey: null,
    approvalsRequired: 1,
    dueAt: null,
    sealed: [{ part: 'identifiers', keyId: 'k1', sealed: 'sealed' }],
    ...change,
  };
}

describeWithPostgres('submit', () => {
  let record: TestRecord;
  beforeAll(async () => {
    record = await openServerRecord();
  });
  afterAll(() => record.close());

  const submitAll = (requests: readonly NewRequest[]) => record.database.transaction((tx) => submit(tx, requests));

  test('WF-1: writes the request with its inventory and what is sealed, together', async () => {
    const one = request({ subjectReference: 's1' });
    expect(await submitAll([one])).toEqual([{ kind: 'submitted', id: one.id }]);
    const snapshot = await readSnapshot(record.database, one.id);
    expect(snapshot?.request).toMatchObject({ status: 'submitted', inventory_digest: one.inventoryDigest });
    expect(snapshot?.inventories).toMatchObject([{ revision: 1, inventory: { version: 1 } }]);
    expect(JSON.stringify(await dump(record.database))).toContain('"sealed');
  });

  test('a key that was used names its request, also when that has ended; a live subject names its own', async () => {
    const first = request({ subjectReference: 's2', idempotencyKey: 'key-2' });
    await submitAll([first]);
    const before = await dump(record.database);
    const results = await submitAll([
      request({ subjectReference: 's2', idempotencyKey: 'key-2' }),
      request({ subjectReference: 's2' }),
      request({ subjectReference: 'elsewhere', idempotencyKey: 'key-2' }),
    ]);
    expect(results.map(({ kind }) => kind)).toEqual(['repeated', 'live', 'repeated']);
    for (const result of results) expect(result).toMatchObject({ existing: first.id });
    expect(await dump(record.database)).toEqual(before);
  });

  test('of a batch, only what is in somebody’s way is left out, also where that is another one of the batch', async () => {
    const [one, twin, other] = [
      request({ subjectReference: 's3' }),
      request({ subjectReference: 's3' }),
      request({ subjectReference: 's4' }),
    ];
    const results = await submitAll([one, twin, other]);
    expect(results.map(({ kind, id }) => [kind, id])).toEqual([
      ['submitted', one.id],
      ['live', twin.id],
      ['submitted', other.id],
    ]);
    expect(results[1]).toMatchObject({ existing: one.id });
  });

  test('batches of the same subjects in opposite orders wait for each other, and do not deadlock', async () => {
    for (let round = 0; round < 5; round += 1) {
      const subjects = Array.from({ length: 300 }, (_, index) => `round-${round}-${index}`);
      const batch = (order: readonly string[]) =>
        submitAll(order.map((subjectReference) => request({ subjectReference })));
      const [up, down] = await Promise.all([batch(subjects), batch([...subjects].reverse())]);
      const submitted = [...up, ...down].filter(({ kind }) => kind === 'submitted');
      expect(submitted).toHaveLength(subjects.length);
      expect([...up, ...down].filter(({ kind }) => kind === 'live')).toHaveLength(subjects.length);
    }
  });
});
