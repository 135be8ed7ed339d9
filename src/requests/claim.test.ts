import { type KyselyPlugin, sql } from 'kysely';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeWithPostgres } from '../../test/support/postgres.js';
import { dump, expireLease, openServerRecord, plant, type TestRecord } from '../../test/support/record.js';
import type { Database, Queries } from '../storage/database.js';
import { claimDue, claimOne, findUnknownWorkflows } from './claim.js';
import { readSnapshot } from './snapshot.js';

const NONE = '01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f';

describeWithPostgres('on PostgreSQL', () => {
  suite(openServerRecord);
  races();
  plans();
});

function due(
  database: Queries,
  owner: string,
  limit = 100,
  more: { except?: string[]; name?: string; version?: number } = {},
) {
  const { except = [], name = 'made-up', version = 1 } = more;
  return claimDue(database, { owner, limit, workflows: [{ workflow: name, version }], except });
}

function one(database: Database, id: string, owner: string) {
  return database.transaction((tx) => claimOne(tx, id, owner));
}

async function set(database: Database, id: string, assignments: string): Promise<void> {
  await sql`UPDATE ${database.t.requests} SET ${sql.raw(assignments)} WHERE id = ${id}::uuid`.execute(database.db);
}

function suite(open: () => Promise<TestRecord>): void {
  let database: Database;
  let record: TestRecord;
  beforeAll(async () => {
    record = await open();
    database = record.database;
  });
  afterAll(() => record.close());

  test('EX-2: a claim saves ownership for 60 s and nothing else', async () => {
    const [id] = (await plant(database, 1)) as [string];
    const before = await readSnapshot(database, id);
    const [claimed] = await due(database, 'worker-1');
    expect(claimed?.lease).toEqual({ requestId: id, owner: 'worker-1', generation: 1 });
    const after = await readSnapshot(database, id);
    const { lease_owner, lease_generation, lease_expires_at, heartbeat_at } = after?.request ?? ({} as never);
    const unowned = { lease_owner: null, lease_generation: 0, lease_expires_at: null, heartbeat_at: null };
    expect({ ...after?.request, ...unowned }).toEqual(before?.request);
    expect([lease_owner, lease_generation]).toEqual(['worker-1', 1]);
    expect((lease_expires_at?.getTime() ?? 0) - (heartbeat_at?.getTime() ?? 0)).toBeGreaterThanOrEqual(60_000);
    expect(after?.stages).toEqual([]);
    await set(database, id, `status = 'cancelled'`);
  });

  test('claims the oldest that is due and free, of the given workflows, but for exceptions', async () => {
    const ids = await plant(database, 7, { workflow: 'bread' });
    const [leased, early, retry, other, excepted, first, second] = ids as [
      string,
      string,
      string,
      string,
      string,
      string,
      string,
    ];
    await set(database, leased, `lease_owner = 'w', lease_expires_at = clock_timestamp() + interval '1 h'`);
    await set(database, early, `status = 'retry_wait', next_attempt_at = clock_timestamp() + interval '1 h'`);
    await set(database, retry, `status = 'retry_wait', next_attempt_at = clock_timestamp() - interval '1 s'`);
    await set(database, other, `workflow_version = 2`);
    await set(database, first, `created_at = clock_timestamp() - interval '1 day'`);
    const options = { name: 'bread', except: [excepted] };
    const claimed = [...(await due(database, 'w1', 1, options)), ...(await due(database, 'w1', 100, options))];
    expect(claimed.map(({ lease }) => lease.requestId)).toEqual([first, retry, second]);
  });

  test.each(['submitted', 'awaiting_approval', 'blocked', 'completed', 'cancelled'])(
    'leaves alone what is %s',
    async (status) => {
      const [id] = (await plant(database, 1, { workflow: status })) as [string];
      await set(database, id, `status = '${status}'`);
      expect(await due(database, 'w1', 1, { name: status })).toEqual([]);
      const before = await dump(database);
      await expect(one(database, id, 'w1')).rejects.toMatchObject({ code: 'WRONG_STATUS', requestId: id });
      expect(await dump(database)).toEqual(before);
    },
  );

  test('EX-21: a second owner is refused, and told who has it and until when', async () => {
    const [id] = (await plant(database, 1)) as [string];
    const { request } = await one(database, id, 'worker-1');
    const before = await dump(database);
    const refused = one(database, id, 'worker-2');
    await expect(refused).rejects.toMatchObject({ code: 'LEASED', outcome: 'refused' });
    await expect(refused).rejects.toThrow(`by worker-1 until ${request.lease_expires_at?.toISOString()}`);
    expect(await dump(database)).toEqual(before);
    await expireLease(database, id);
    expect((await one(database, id, 'worker-2')).lease.generation).toBe(2);
  });

  test('EX-17: before its deadline it is refused, with the time', async () => {
    const [id] = (await plant(database, 1)) as [string];
    await set(database, id, `status = 'retry_wait', next_attempt_at = timestamptz '2099-01-01T00:00:00Z'`);
    const before = await dump(database);
    await expect(one(database, id, 'w1')).rejects.toMatchObject({ code: 'NOT_DUE' });
    await expect(one(database, id, 'w1')).rejects.toThrow('2099-01-01T00:00:00.000Z');
    expect(await dump(database)).toEqual(before);
    await set(database, id, `next_attempt_at = clock_timestamp()`);
    expect((await one(database, id, 'w1')).request.status).toBe('retry_wait');
  });

  test('an unknown id is refused', async () => {
    await expect(one(database, NONE, 'w1')).rejects.toMatchObject({ code: 'UNKNOWN_REQUEST' });
  });

  test('EX-27: what waits for a workflow or version that is not known is counted', async () => {
    await plant(database, 2, { workflow: 'rye', version: 1 });
    await plant(database, 3, { workflow: 'rye', version: 9 });
    const found = await findUnknownWorkflows(database, [{ workflow: 'rye', version: 1 }]);
    expect(found.filter(({ workflow }) => workflow === 'rye')).toEqual([{ workflow: 'rye', version: 9, count: 3 }]);
  });
}

function races(): void {
  let record: TestRecord;
  beforeAll(async () => {
    record = await openServerRecord();
  });
  afterAll(() => record.close());

  test('EX-21: of many claims at once exactly one succeeds', async () => {
    const [id] = (await plant(record.database, 1)) as [string];
    const claims = await Promise.allSettled(
      Array.from({ length: 8 }, (_, index) => one(record.database, id, `worker-${index}`)),
    );
    expect(claims.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const claim of claims) {
      if (claim.status === 'rejected') expect(claim.reason).toMatchObject({ code: 'LEASED' });
    }
    expect((await readSnapshot(record.database, id))?.request.lease_generation).toBe(1);
  });

  test('workers that claim at once share what is due, and none waits for another', async () => {
    const ids = await plant(record.database, 200, { workflow: 'shared' });
    const claims = await Promise.all(
      Array.from({ length: 5 }, (_, index) => due(record.database, `worker-${index}`, 40, { name: 'shared' })),
    );
    const rest = await due(record.database, 'worker-0', 200, { name: 'shared' });
    const all = [...claims.flat(), ...rest].map(({ lease }) => lease.requestId);
    expect(new Set(all).size).toBe(all.length);
    expect([...all].sort()).toEqual([...ids].sort());
  });
}

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Parent Relationship'?: string;
  readonly 'Index Name'?: string;
  readonly 'Relation Name'?: string;
  readonly Plans?: readonly PlanNode[];
}

/** Has the statements of an operation explained instead of run. */
async function explain(database: Database, work: (queries: Queries) => Promise<unknown>): Promise<readonly PlanNode[]> {
  const plans: PlanNode[] = [];
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => {
      if (node.kind !== 'RawNode') return node;
      const [first, ...rest] = node.sqlFragments;
      return { ...node, sqlFragments: [`EXPLAIN (FORMAT JSON) ${first}`, ...rest] };
    },
    transformResult: async ({ result }) => {
      for (const row of result.rows as { 'QUERY PLAN': { Plan: PlanNode }[] }[]) {
        plans.push(...row['QUERY PLAN'].map(({ Plan }) => Plan));
      }
      return { ...result, rows: [] };
    },
  };
  await work({ db: database.db.withPlugin(plugin), t: database.t });
  return plans.flatMap(everyNode);
}

function everyNode(node: PlanNode): readonly PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(everyNode)];
}

/** The node and those below it that it reads rows from. */
function flatten(node: PlanNode): readonly PlanNode[] {
  const inputs = (node.Plans ?? []).filter((below) => below['Parent Relationship'] !== 'InitPlan');
  return [node, ...inputs.flatMap(flatten)];
}

function plans(): void {
  let record: TestRecord;
  beforeAll(async () => {
    record = await openServerRecord();
    await fill('completed', 200_000);
    await fill('approved', 300);
  });
  afterAll(() => record.close());

  async function fill(status: string, count: number): Promise<void> {
    const { db, t } = record.database;
    await sql`
      INSERT INTO ${t.requests} (id, workflow, workflow_version, subject_reference, status, requested_by, created_at)
      SELECT gen_random_uuid(), 'made-up', 1, 's' || n, ${status}::text, 'a', clock_timestamp() - n * interval '1 s'
        FROM generate_series(1, ${count}::integer) n
      ON CONFLICT DO NOTHING`.execute(db);
    await sql`ANALYZE ${t.requests}`.execute(db);
  }

  const scans = (nodes: readonly PlanNode[]) =>
    nodes.filter((node) => node['Relation Name'] === 'entity_deletion_requests' && node['Node Type'].includes('Scan'));

  test('claiming reads live requests only, however many are finished', async () => {
    const nodes = await explain(record.database, (queries) => due(queries, 'w1', 50));
    expect(scans(nodes).map((node) => node['Index Name'])).toContain('claimable_requests');
    expect(nodes.map((node) => node['Node Type'])).not.toContain('Seq Scan');
  });

  test('claiming reads as many rows of a backlog as it takes: in the order of the index, without a sort', async () => {
    await fill('approved', 20_000);
    const nodes = await explain(record.database, (queries) => due(queries, 'w1', 50));
    const limit = nodes.find((node) => node['Node Type'] === 'Limit') as PlanNode;
    expect(flatten(limit).map((node) => node['Node Type'])).toEqual(['Limit', 'LockRows', 'Index Scan']);
    expect(flatten(limit).at(-1)?.['Index Name']).toBe('claimable_requests');
  });
}
