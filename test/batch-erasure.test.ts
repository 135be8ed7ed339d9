/** Sixty people from one submit to the end, and what the target is asked on the way. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgresProxy } from './support/postgres-proxy.js';
import { addCrowd, crowdTarget, FIRST_OF_CROWD, HELD, leftOfCrowd, PROTECTED, recommend } from './support/crowd.js';
import { openOffice, type Office } from './support/erasure-office.js';
import { describeWithPostgres } from './support/postgres.js';

const SIZE = 60;

describeWithPostgres('a crowd', () => {
  let office: Office;
  beforeAll(async () => {
    office = await openOffice();
    await addCrowd(office, SIZE);
  });
  afterAll(() => office.close());

  test('goes, but for the one who is protected and the one whom a foreign key holds: each is blocked with its own reason', async () => {
    const proxy = await startPostgresProxy(office.url);
    const desk = office.desk({
      targets: { shop: crowdTarget(proxy.url) },
      protected: { customerId: [String(PROTECTED)] },
    });
    const { client } = desk;
    const crowd = () => Array.from({ length: SIZE }, (_, at) => ({ customerId: String(FIRST_OF_CROWD + at) }));
    const batch = await client.submitMany(crowd, { requestedBy: 'anna', partLines: 25 });
    await client.batches.approve({ batchId: batch.id, approvedBy: 'ben', digest: batch.digest ?? '' });
    await recommend(office);
    proxy.statements.length = 0;
    // Two loops, as two workers are.
    await client.requests.work({
      ...{ executorId: 'worker', signal: new AbortController().signal, once: true, concurrency: 2, batch: 30 },
    });
    expect((await client.batches.show(batch.id)).statuses).toEqual({ blocked: 2, completed: SIZE - 2 });
    const blocked = await client.requests.list({ workflow: null, status: 'blocked', batch: batch.id, limit: 10 });
    expect(Object.fromEntries(blocked.map((row) => [row.batch_position, row.blocked_reason]))).toEqual({
      [PROTECTED - FIRST_OF_CROWD + 1]: expect.stringMatching(/^PROTECTED_SUBJECT: /) as string,
      [HELD - FIRST_OF_CROWD + 1]: expect.stringMatching(
        /^shop: TARGET_BLOCKED: .*"recommendation".*recommendation_recommended_fkey/,
      ) as string,
    });
    expect(await leftOfCrowd(office)).toEqual([PROTECTED, HELD]);
    // A claim's erase takes as many statements for thirty as for thousands, so that this holds for ten thousand in a few claims.
    const calls = new Map<string, number>();
    for (const { text } of proxy.statements) calls.set(text, (calls.get(text) ?? 0) + 1);
    expect(Math.max(...calls.values()) / 2).toBeLessThanOrEqual(15);
    await proxy.close();
  });
});
