/** What `record-model.test.ts` does a few times, many times. */
import fc from 'fast-check';
import { afterAll, beforeAll, test } from 'vitest';
import { describeWithPostgres } from '../support/postgres.js';
import { openServerRecord, type TestRecord } from '../support/record.js';
import { recordFollowsModel } from './commands.js';

describeWithPostgres('a request and its model', () => {
  let record: TestRecord;
  beforeAll(async () => {
    record = await openServerRecord();
  });
  afterAll(() => record.close());

  test('EX-1 to EX-22, OP-9, OP-10: agree after every command, in a thousand sequences', async () => {
    await fc.assert(recordFollowsModel(record.database), { numRuns: 1000 });
  });
});
