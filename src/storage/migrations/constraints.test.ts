/** What the schema itself refuses, whoever writes: the last line behind the operations in `requests/`. */
import { randomUUID } from 'node:crypto';
import { type RawBuilder, sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase, describeWithPostgres, type TestDatabase } from '../../../test/support/postgres.js';
import type { Database, TableKey, TableNames } from '../database.js';
import { openPostgres } from '../postgres/postgres-database.js';
import { migrate } from './migrate.js';

const digest = (letter: string): string => letter.repeat(64);

type Row = Readonly<Record<string, string | number | boolean | null>>;

describeWithPostgres('the schema', () => {
  let own: TestDatabase;
  let database: Database;
  let t: TableNames;
  beforeAll(async () => {
    own = await createTestDatabase();
    database = openPostgres({ url: own.url });
    await migrate(database);
    ({ t } = database);
  });
  afterAll(async () => {
    await database?.close();
    await own?.drop();
  });

  function insert(table: TableKey, row: Row): RawBuilder<unknown> {
    const columns = sql.join(Object.keys(row).map((name) => sql.id(name)));
    return sql`INSERT INTO ${t[table]} (${columns}) VALUES (${sql.join(Object.values(row))})`;
  }

  const rowOf = {
    requests: (over: Row = {}): Row => ({
      id: randomUUID(),
      workflow: 'any',
      workflow_version: 1,
      status: 'submitted',
      requested_by: 'operator-a',
      ...over,
    }),
    inventories: (request_id: string, over: Row = {}): Row => ({
      request_id,
      revision: 1,
      inventory: '{}',
      inventory_digest: digest('a'),
      ...over,
    }),
    approvals: (request_id: string, over: Row = {}): Row => ({
      id: randomUUID(),
      request_id,
      inventory_digest: digest('a'),
      approved_by: 'operator-b',
      ...over,
    }),
    stages: (request_id: string, over: Row = {}): Row => ({
      id: randomUUID(),
      request_id,
      stage: 'any',
      status: 'pending',
      is_current: true,
      metadata_json: '{}',
      ...over,
    }),
    receipts: (request_id: string, over: Row = {}): Row => ({
      id: randomUUID(),
      request_id,
      sequence: 1,
      receipt: 'x',
      receipt_hash: digest('b'),
      ...over,
    }),
    orders: (request_id: string, over: Row = {}): Row => ({
      id: randomUUID(),
      request_id,
      kind: 'hold',
      ordered_by: 'operator-a',
      ...over,
    }),
    sealed: (request_id: string, over: Row = {}): Row => ({
      request_id,
      part: 'identifiers',
      key_id: 'k1',
      sealed: 'x',
      ...over,
    }),
    tombstones: (over: Row = {}): Row => ({
      reference: randomUUID(),
      state: 'in_progress',
      generation: 1,
      deleted_generation: 1,
      group_id: randomUUID(),
      ...over,
    }),
  };

  /** A request with an inventory, as most rows need one. */
  async function plant(over: Row = {}): Promise<string> {
    const id = randomUUID();
    await insert('requests', rowOf.requests({ ...over, id })).execute(database.db);
    await insert('inventories', rowOf.inventories(id)).execute(database.db);
    return id;
  }

  type Step = (request: string) => RawBuilder<unknown>;
  const another = randomUUID();
  const live =
    (over: Row): Step =>
    (request) =>
      insert('requests', rowOf.requests({ ...over, ...(over.target === '' && { target: `demo:${request}` }) }));
  const update = (table: TableKey, set: RawBuilder<unknown>): Step => {
    const key = (): RawBuilder<unknown> => sql.id(table === 'requests' ? 'id' : 'request_id');
    return (request) => sql`UPDATE ${t[table]} SET ${set} WHERE ${key()} = ${request}`;
  };
  const approval =
    (over: Row = {}): Step =>
    (request) =>
      insert('approvals', rowOf.approvals(request, over));
  const stage =
    (over: Row = {}): Step =>
    (request) =>
      insert('stages', rowOf.stages(request, over));
  const inventory =
    (over: Row = {}): Step =>
    (request) =>
      insert('inventories', rowOf.inventories(request, over));
  const receipt =
    (over: Row = {}): Step =>
    (request) =>
      insert('receipts', rowOf.receipts(request, over));
  const order =
    (over: Row = {}): Step =>
    (request) =>
      insert('orders', rowOf.orders(request, over));
  const sealed =
    (over: Row = {}): Step =>
    (request) =>
      insert('sealed', rowOf.sealed(request, over));
  const subject = { subject_reference: 'pseudonym' };
  const target = { target: '' };
  const key = { idempotency_key: 'once' };

  const UNIQUE = '23505';
  const FOREIGN = '23503';
  const CHECK = '23514';
  const NOT_NULL = '23502';
  const APPEND_ONLY = '23001';

  /** All steps but the last succeed; the last one is refused, or succeeds too where no refusal is expected. */
  async function walk(steps: readonly Step[], refusal?: { code: string; constraint?: string }): Promise<void> {
    const request = await plant();
    const rollBack = new Error('rolled back, to keep apart from the other cases');
    const walked = database.transaction(async (tx) => {
      for (const step of steps.slice(0, -1)) await step(request).execute(tx.db);
      const last = steps.at(-1)?.(request).execute(tx.db);
      if (refusal === undefined) await last;
      else await expect(last).rejects.toMatchObject(refusal);
      throw rollBack;
    });
    await expect(walked).rejects.toBe(rollBack);
  }

  describe('takes', () => {
    test.each<[string, ...Step[]]>([
      [
        'OP-2: a new request for a target whose last one is completed',
        live({ ...target, status: 'completed' }),
        live(target),
      ],
      [
        'OP-2: a new request for a target whose last one was cancelled',
        live({ ...target, status: 'cancelled' }),
        live(target),
      ],
      [
        'OP-2: a new request for a subject whose last one is completed',
        live({ ...subject, status: 'completed' }),
        live(subject),
      ],
      ['the same target in another workflow', live(target), live({ ...target, workflow: 'other' })],
      ['requests without target and subject', live({}), live({})],
      ['the same idempotency key in another workflow', live(key), live({ ...key, workflow: 'other' })],
      ['approvals of one inventory by two people', approval(), approval({ approved_by: 'operator-c' })],
      [
        'approvals of two revisions by one person',
        approval(),
        inventory({ revision: 2, inventory_digest: digest('c') }),
        approval({ inventory_digest: digest('c') }),
      ],
      ['many stages of which one is current', stage({ is_current: false }), stage({ is_current: false }), stage()],
      ['a new hold after the old one has ended', order({ ended_at: '2024-01-01Z' }), order()],
      ['a hold and a cancel', order(), order({ kind: 'cancel' })],
      [
        'the destruction of sealed identifiers',
        sealed(),
        (request) => sql`DELETE FROM ${t.sealed} WHERE request_id = ${request}`,
      ],
      ['a lease with owner and end', update('requests', sql`lease_owner = 'w', lease_expires_at = clock_timestamp()`)],
      [
        'a held request that knows where it goes back to',
        update('requests', sql`status = 'held', held_status = 'approved'`),
      ],
    ])('%s', async (_name, ...steps) => walk(steps));
  });

  describe('refuses', () => {
    test.each<[string, { code: string; constraint?: string }, ...Step[]]>([
      [
        'OP-2: a second live request for a target',
        { code: UNIQUE, constraint: 'one_live_request_per_target' },
        live(target),
        live(target),
      ],
      [
        'OP-2: also one that waits',
        { code: UNIQUE, constraint: 'one_live_request_per_target' },
        live({ ...target, status: 'blocked' }),
        live(target),
      ],
      [
        'OP-2: a second live request for a subject',
        { code: UNIQUE, constraint: 'one_live_request_per_subject' },
        live(subject),
        live(subject),
      ],
      [
        'OP-2: that a finished request comes to life beside another',
        { code: UNIQUE, constraint: 'one_live_request_per_subject' },
        live({ ...subject, status: 'completed', id: another }),
        live(subject),
        () => sql`UPDATE ${t.requests} SET status = 'running' WHERE id = ${another}`,
      ],
      [
        'a second request with an idempotency key, also after the first has finished',
        { code: UNIQUE, constraint: 'one_request_per_idempotency_key' },
        live({ ...key, status: 'completed' }),
        live(key),
      ],
      [
        'OP-3: a second approval by a person',
        { code: UNIQUE, constraint: 'one_approval_per_person' },
        approval(),
        approval(),
      ],
      [
        'OP-3: a second approval in other letters',
        { code: UNIQUE, constraint: 'one_approval_per_person' },
        approval(),
        approval({ approved_by: '  Operator-B ' }),
      ],
      ['an approval by nobody', { code: CHECK }, approval({ approved_by: '  ' })],
      [
        'an approval of an inventory that was never saved',
        { code: FOREIGN },
        approval({ inventory_digest: digest('c') }),
      ],
      ['an approval without an inventory', { code: NOT_NULL }, approval({ inventory_digest: null })],
      [
        "an approval of another request's inventory",
        { code: FOREIGN },
        live({ id: another }),
        inventory({ request_id: another, inventory_digest: digest('d') }),
        approval({ inventory_digest: digest('d') }),
      ],
      ['a second current stage', { code: UNIQUE, constraint: 'one_current_stage_per_request' }, stage(), stage()],
      [
        'that an old stage becomes current beside the new one',
        { code: UNIQUE, constraint: 'one_current_stage_per_request' },
        stage({ is_current: false }),
        stage(),
        update('stages', sql`is_current = true`),
      ],
      ['a stage status that is none', { code: CHECK }, stage({ status: 'done' })],
      ['a stage of no request', { code: FOREIGN }, stage({ request_id: randomUUID() })],
      [
        'EX-26: that a request with history is deleted',
        { code: FOREIGN },
        (request) => sql`DELETE FROM ${t.requests} WHERE id = ${request}`,
      ],
      ['a digest in upper case', { code: CHECK }, inventory({ revision: 2, inventory_digest: digest('A') })],
      ['a digest that is too short', { code: CHECK }, inventory({ revision: 2, inventory_digest: 'abc' })],
      [
        'a digest with more behind it',
        { code: CHECK },
        inventory({ revision: 2, inventory_digest: `${digest('a')}\n` }),
      ],
      ['a revision that was saved', { code: UNIQUE }, inventory({ inventory_digest: digest('c') })],
      ['revision 0', { code: CHECK }, inventory({ revision: 0, inventory_digest: digest('c') })],
      ['a status that is none', { code: CHECK }, update('requests', sql`status = 'done'`)],
      ['an owner whose lease never ends', { code: CHECK }, update('requests', sql`lease_owner = 'w'`)],
      ['a lease of nobody', { code: CHECK }, update('requests', sql`lease_expires_at = clock_timestamp()`)],
      [
        'a held request that does not know where it goes back to',
        { code: CHECK },
        update('requests', sql`status = 'held'`),
      ],
      ['a second hold', { code: UNIQUE, constraint: 'one_standing_order_per_kind' }, order(), order()],
      ['an order that is none', { code: CHECK }, order({ kind: 'pause' })],
      ['a second receipt with a number', { code: UNIQUE }, receipt(), receipt()],
      ['a receipt without a proper hash', { code: CHECK }, receipt({ receipt_hash: 'x' })],
      ['a part that is sealed twice', { code: UNIQUE }, sealed(), sealed()],
      ['a tombstone in no state', { code: CHECK }, () => insert('tombstones', rowOf.tombstones({ state: 'gone' }))],
      [
        'a second tombstone of a reference',
        { code: UNIQUE },
        () => insert('tombstones', rowOf.tombstones({ reference: 'r' })),
        () => insert('tombstones', rowOf.tombstones({ reference: 'r' })),
      ],
    ])('%s', async (_name, refusal, ...steps) => walk(steps, refusal));
  });

  describe('only appends to', () => {
    const rows: Readonly<Record<'inventories' | 'approvals' | 'receipts' | 'events', Step>> = {
      inventories: inventory({ revision: 2, inventory_digest: digest('e') }),
      approvals: approval(),
      receipts: receipt(),
      events: (request) => insert('events', { request_id: request, event: 'submitted' }),
    };
    const tables = ['inventories', 'approvals', 'receipts', 'events'] as const;

    test.each(tables)('%s: no update', async (table) => {
      await walk([rows[table], update(table, sql`request_id = request_id`)], { code: APPEND_ONLY });
    });

    test.each(tables)('%s: no delete', async (table) => {
      const remove: Step = (request) => sql`DELETE FROM ${t[table]} WHERE request_id = ${request}`;
      await walk([rows[table], remove], { code: APPEND_ONLY });
    });

    test.each(tables)('%s: no truncate', async (table) => {
      await walk([() => sql`TRUNCATE ${t[table]} CASCADE`], { code: APPEND_ONLY });
    });
  });
});
