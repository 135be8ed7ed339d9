/** The record and the engine against their contract: random sequences of commands by three workers and their operators. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeWithPostgres } from '../support/postgres.js';
import { openServerRecord, type TestRecord } from '../support/record.js';
import { faults } from './broken-operations.js';
import { amongWorkers, recordFollowsModel } from './commands.js';

describeWithPostgres('a request and its model', () => {
  let record: TestRecord;
  beforeAll(async () => {
    record = await openServerRecord();
  });
  afterAll(() => record.close());

  test('EX-1 to EX-22, OP-9, OP-10: agree after every command', async () => {
    await fc.assert(recordFollowsModel(record.database), { numRuns: 25 });
  });

  test.each(faults)('disagree about $rule, and a short script shows it', async ({ seed, operations }) => {
    const property = recordFollowsModel(record.database, operations, amongWorkers);
    const found = await fc.check(property, { numRuns: 300, seed });
    expect(found.failed).toBe(true);
    expect(fc.defaultReportMessage(found)).toMatch(new RegExp(`seed: ${seed}, path: "[\\d:]+"`));
    const script = fc.stringify(found.counterexample?.[2]).split(',');
    expect(script.length, `commands of: ${script.join(', ')}`).toBeLessThanOrEqual(6);
  });
});
