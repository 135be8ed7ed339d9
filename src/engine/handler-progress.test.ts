import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeWithPostgres } from '../../test/support/postgres.js';
import {
  madeUp,
  openEmbeddedRecord,
  openServerRecord,
  plant,
  readableLog,
  type TestRecord,
} from '../../test/support/record.js';
import { RegisteredWorkflows } from './registered-workflows.js';
import { work } from './worker.js';
import type { Handler } from './workflow.js';

describe('on PGlite', () => suite(openEmbeddedRecord));
describeWithPostgres('on PostgreSQL', () => suite(openServerRecord));

function suite(open: () => Promise<TestRecord>): void {
  let record: TestRecord;
  beforeAll(async () => {
    record = await open();
  });
  afterAll(() => record.close());

  test('EX-24: a handler that is called again in halves is given the intents and cursors that it had saved', async () => {
    const ids = await plant(record.database, 4);
    const seen: {
      readonly runs: number;
      readonly intents: readonly unknown[];
      readonly cursors: readonly unknown[];
    }[] = [];
    const knead: Handler = async (runs, context) => {
      const intents = runs.map(({ stage }) => stage.metadata_json.intent);
      seen.push({ runs: runs.length, intents, cursors: runs.map(({ stage }) => stage.metadata_json.cursor) });
      const fresh = runs.filter(({ stage }) => stage.metadata_json.intent === undefined);
      if (fresh.length > 0) {
        await context.save(new Map(fresh.map(({ request }) => [request.id, { intent: { of: request.id } }])));
        await context.save(new Map(fresh.map(({ request }) => [request.id, { cursor: 7 }])));
      }
      if (runs.length > 1) throw new Error('not all at once');
      return { outcomes: new Map(runs.map(({ request }) => [request.id, { kind: 'completed', result: {} }])) };
    };
    await work({
      database: record.database,
      workflows: new RegisteredWorkflows([madeUp({ handlers: { knead } })]),
      log: readableLog().log,
      signal: new AbortController().signal,
      executorId: 'worker',
      once: true,
      concurrency: 1,
    });
    expect(seen.map(({ runs }) => runs)).toEqual([4, 2, 1, 1, 2, 1, 1]);
    const [first, ...again] = seen;
    expect(first?.intents).toEqual(Array(4).fill(undefined));
    expect(again.flatMap(({ cursors }) => cursors)).toEqual(Array(8).fill(7));
    expect(new Set(again.flatMap(({ intents }) => intents).map((intent) => (intent as { of: string }).of))).toEqual(
      new Set(ids),
    );
  });
}
