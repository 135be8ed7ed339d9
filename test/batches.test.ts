/** Many deletions submitted and approved as one (WF-8), in this process. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { BatchLine } from '../src/client/batch-source.js';
import { codeOf, openOffice, type Office, visits } from './support/erasure-office.js';
import { describeWithPostgres } from './support/postgres.js';

const FIRST = { requestedBy: 'anna', reasonCode: 'MAIL_REQUEST' };

/** People by their numbers, from `from` to `to`. */
const people = (from: number, to: number) => () =>
  Array.from({ length: to - from + 1 }, (_, at) => ({ customerId: String(from + at) }));

describeWithPostgres('a batch', () => {
  let office: Office;
  beforeAll(async () => {
    office = await openOffice();
    // Two rows each, but forty of customer 25.
    await office.query('INSERT INTO visit SELECT 1000 + i, 10 + i / 2 FROM generate_series(0, 999) i');
    await office.query('INSERT INTO visit SELECT 5000 + i, 25 FROM generate_series(1, 38) i');
  });
  afterAll(() => office.close());

  const desk = (more: Parameters<Office['desk']>[0] = {}) =>
    office.desk({
      targets: { shop: visits(office.url) },
      bounds: { rows: 10 },
      protected: { customerId: ['21'] },
      ...more,
    });

  const countOf = async (table: string) => Number((await office.own(`SELECT count(*) AS n FROM ${table}`))[0]?.n);

  test('is submitted, refused members and all, approved by one digest, and run to its end', async () => {
    const { client, status } = desk();
    const batch = await client.submitMany(people(20, 29), FIRST);
    expect(batch).toMatchObject({ state: 'closed', members: 8, refused: 2, left_out: 0, copies: 16 });
    expect(batch.statuses).toEqual({ submitted: 8, blocked: 2 });
    expect(batch.blocked).toMatchObject([
      { position: 2, refused: true, reason: expect.stringMatching(/^PROTECTED_SUBJECT: /) as string },
      { position: 6, refused: true, reason: expect.stringMatching(/^BOUNDS_EXCEEDED: 40 copies/) as string },
    ]);

    const digest = batch.digest ?? '';
    const approve = (approvedBy: string, hex = digest) =>
      codeOf(client.batches.approve({ batchId: batch.id, approvedBy, digest: hex }));
    expect(await approve(' ANNA ')).toBe('APPROVER_IS_REQUESTER');
    expect(await approve('ben', 'a'.repeat(64))).toBe('DIGEST_MISMATCH');
    expect(await approve('23')).toBe('INVALID_OPERATOR');
    expect(await countOf('entity_deletion_approvals')).toBe(0);

    const approved = await client.batches.approve({ batchId: batch.id, approvedBy: 'ben', digest });
    expect(approved).toMatchObject({ approved: 8, ready: 8, left_out: {} });
    expect(await approve('Ben')).toBe('ALREADY_APPROVED_BY');
    expect(await approve('cara')).toBe('NOT_AWAITING_APPROVAL');
    const events = await office.own<{ batch_position: number }>(`
      SELECT r.batch_position FROM deletion_events e JOIN entity_deletion_requests r ON r.id = e.request_id
       WHERE e.event = 'approved' AND e.actor = 'ben' ORDER BY 1`);
    expect(events.map(({ batch_position: at }) => at)).toEqual([1, 3, 4, 5, 7, 8, 9, 10]);

    await client.requests.work({ executorId: 'w', signal: new AbortController().signal, once: true });
    const shown = await client.batches.show(batch.id);
    expect(shown.statuses).toEqual({ blocked: 2, completed: 8 });
    expect(
      await office.query('SELECT DISTINCT customer_id FROM visit WHERE customer_id BETWEEN 20 AND 29 ORDER BY 1'),
    ).toEqual([{ customer_id: 21 }, { customer_id: 25 }]);

    // What was refused can neither go on nor be approved alone; it can be given up, and submitted anew when that is right.
    const [refused] = batch.blocked;
    const id = refused?.request_id ?? '';
    const order = { requestId: id, by: 'cara', reason: 'test' };
    expect(await codeOf(client.requests.unblock(order))).toBe('NEVER_APPROVABLE');
    expect(await codeOf(client.requests.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: digest }))).toBe(
      'NOT_AWAITING_APPROVAL',
    );
    expect(await codeOf(client.revise(id, 'cara'))).toBe('NEVER_APPROVABLE');
    expect(await office.own(`SELECT FROM deletion_sealed_identifiers WHERE request_id = '${id}'`)).toEqual([]);
    expect(await client.requests.cancel(order)).toMatchObject({ status: 'cancelled' });
    expect(await status(id)).toBe('cancelled');
    const unprotected = desk({ protected: {} });
    expect((await unprotected.submitted(21)).id).not.toBe(id);
  });

  test('leaves out whoever stands in it twice or has a live request, and says at which line', async () => {
    const { client, submitted } = desk();
    const { id } = await submitted(31);
    const batch = await client.submitMany(() => ['30', '31', '32', '30'].map((customerId) => ({ customerId })), {
      ...FIRST,
      partLines: 2,
    });
    expect(batch).toMatchObject({ members: 2, refused: 0, left_out: 2 });
    expect(batch.omissions).toMatchObject([
      { position: 2, request_id: id, twice: false },
      { position: 4, twice: true },
    ]);
  });

  test('keeps the requester out of it who is one of the subjects, without a trace that leads to them', async () => {
    const { client } = desk();
    const batch = await client.submitMany(people(40, 42), { requestedBy: '41' });
    expect(batch).toMatchObject({ members: 2, refused: 1 });
    expect(batch.blocked).toMatchObject([
      { position: 2, reason: expect.stringContaining('INVALID_OPERATOR') as string },
    ]);
    const rows = await office.own(
      `SELECT subject_reference, inventory_digest FROM entity_deletion_requests WHERE batch_id = '${batch.id}' AND batch_position = 2`,
    );
    expect(rows).toEqual([{ subject_reference: null, inventory_digest: null }]);
  });

  test('is refused as a whole where lines cannot be used: named by number, without a word of them', async () => {
    const { client } = desk();
    const before = [await countOf('deletion_batches'), await countOf('entity_deletion_requests')];
    const wrong = Array.from({ length: 12 }, () => ({ customerId: '' }));
    const work = client.submitMany(() => [{ customerId: '50' }, { customerID: 'secret-51' }, ...wrong], FIRST);
    const error = (await work.catch((reason: unknown) => reason)) as Error;
    expect(error).toMatchObject({ code: 'INVALID_BATCH' });
    expect(error.message).toContain('3 more lines are wrong');
    expect(error.message).toMatch(/line 2: .*not declared.*line 3: .*customerId is empty.*line 11: /);
    expect(error.message).not.toMatch(/secret|line 12/);
    expect(await codeOf(client.submitMany(() => [], FIRST))).toBe('INVALID_BATCH');
    expect([await countOf('deletion_batches'), await countOf('entity_deletion_requests')]).toEqual(before);
  });

  test('goes on where an interrupted submit was, and is the same when it is repeated; other subjects are another', async () => {
    const { client } = desk();
    const options = { ...FIRST, partLines: 5 };
    let readings = 0;
    const torn = async function* (): AsyncGenerator<BatchLine> {
      readings += 1;
      for (const [at, identifiers] of people(60, 79)().entries()) {
        // In the second reading, after two parts were written.
        if (readings === 2 && at === 13) throw new Error('torn');
        yield { position: at + 1, identifiers };
      }
    };
    await expect(client.submitLines(torn, options)).rejects.toThrow('torn');
    const [open] = await office.own<{ id: string; last_position: number }>(
      `SELECT id, last_position FROM deletion_batches WHERE state = 'open'`,
    );
    expect(open?.last_position).toBeGreaterThan(0);
    expect(open?.last_position).toBeLessThan(15);
    const id = open?.id ?? '';
    expect(await codeOf(client.batches.approve({ batchId: id, approvedBy: 'ben', digest: 'a'.repeat(64) }))).toBe(
      'BATCH_OPEN',
    );
    // Two at once go on with it together.
    const both = await Promise.all([1, 2].map(() => client.submitMany(people(60, 79), options)));
    expect(both.map((batch) => batch.id)).toEqual([id, id]);
    const positions = await office.own<{ at: number }>(
      `SELECT batch_position AS at FROM entity_deletion_requests WHERE batch_id = '${id}' ORDER BY 1`,
    );
    expect(positions.map(({ at }) => at)).toEqual(Array.from({ length: 20 }, (_, at) => at + 1));
    expect(both[0]).toMatchObject({ state: 'closed', members: 20, left_out: 0, digest: both[1]?.digest });

    const before = await countOf('entity_deletion_requests');
    expect((await client.submitMany(people(60, 79), FIRST)).id).not.toBe(undefined);
    const again = await client.submitMany(people(60, 79), options);
    expect([again.id, again.digest]).toEqual([id, both[0]?.digest]);
    expect(await countOf('entity_deletion_requests')).toBe(before);
    // One more line, or another key, is another batch, in which nobody is twice.
    const longer = await client.submitMany(people(60, 80), options);
    expect(longer).toMatchObject({ members: 1, left_out: 20 });
    expect(longer.id).not.toBe(id);
    expect((await client.submitMany(people(60, 79), { ...options, idempotencyKey: 'second' })).left_out).toBe(20);
  });

  test('writes nothing of a source that is another one the second time', async () => {
    const { client } = desk();
    let reading = 0;
    const source = () => people(90, 94 + (reading += 1))();
    expect(await codeOf(client.submitMany(source, { ...FIRST, partLines: 2 }))).toBe('BATCH_CHANGED');
  });

  test('is approved but for those that were cancelled, held or revised meanwhile, and in as many steps as there are approvers', async () => {
    const { client, status } = desk({ approvals: { required: 2 } });
    const batch = await client.submitMany(people(100, 105), FIRST);
    const members = await client.requests.list({ workflow: null, status: null, batch: batch.id, limit: 10 });
    const at = (position: number) => members.find((row) => row.batch_position === position)?.id ?? '';
    const order = { by: 'cara', reason: 'test' };
    await client.requests.cancel({ requestId: at(1), ...order });
    await client.requests.hold({ requestId: at(2), ...order, until: null });
    await office.query('INSERT INTO visit SELECT 9000 + i, 102 FROM generate_series(1, 3) i');
    await client.revise(at(3), 'cara');
    const approve = (approvedBy: string) =>
      client.batches.approve({ batchId: batch.id, approvedBy, digest: batch.digest ?? '' });
    const leftOut = { cancelled: 1, held: 1, revised: 1 };
    expect(await approve('ben')).toMatchObject({ approved: 3, ready: 0, left_out: leftOut });
    await client.requests.endHold({ requestId: at(2), by: 'cara' });
    expect(await approve('ben')).toMatchObject({
      approved: 1,
      left_out: { cancelled: 1, revised: 1, approved_before: 3 },
    });
    expect(await approve('dora')).toMatchObject({ approved: 4, ready: 4 });
    expect(await Promise.all([1, 2, 3, 4].map((position) => status(at(position))))).toEqual([
      'cancelled',
      'approved',
      'submitted',
      'approved',
    ]);
    expect((await client.batches.show(batch.id)).approvals).toMatchObject([
      { approved_by: 'ben', members: 4 },
      { approved_by: 'dora', members: 4 },
    ]);
  });

  test('is not approved where its rows are not those that it was closed with', async () => {
    const { client } = desk();
    const batch = await client.submitMany(people(110, 112), FIRST);
    const approve = () =>
      codeOf(client.batches.approve({ batchId: batch.id, approvedBy: 'ben', digest: batch.digest ?? '' }));
    await office.own(
      `UPDATE entity_deletion_requests SET batch_position = 7 WHERE batch_id = '${batch.id}' AND batch_position = 2`,
    );
    expect(await approve()).toBe('RECORD_INTEGRITY');
    await office.own(
      `UPDATE entity_deletion_requests SET batch_position = 2 WHERE batch_id = '${batch.id}' AND batch_position = 7`,
    );
    await office.own('ALTER TABLE entity_deletion_inventories DISABLE TRIGGER append_only');
    await office.own(`
      UPDATE entity_deletion_inventories SET inventory = jsonb_set(inventory, '{targets,0,places,0,count}', '1')
       WHERE request_id = (SELECT id FROM entity_deletion_requests WHERE batch_id = '${batch.id}' AND batch_position = 3)`);
    expect(await approve()).toBe('RECORD_INTEGRITY');
    expect(
      await office.own(
        `SELECT FROM entity_deletion_approvals a JOIN entity_deletion_requests r ON r.id = a.request_id WHERE r.batch_id = '${batch.id}'`,
      ),
    ).toEqual([]);
  });

  test('WF-9: stops before it would delete more than a batch may, goes on when the bound is raised, and is looked at again', async () => {
    const small = desk({ bounds: { rows: 10, batch: 9 } }).client;
    const options = { ...FIRST, partLines: 2 };
    expect(await codeOf(small.submitMany(people(120, 125), options))).toBe('BOUNDS_EXCEEDED');
    const large = desk().client;
    const batch = await large.submitMany(people(120, 125), options);
    expect(batch).toMatchObject({ members: 6, copies: 12 });
    const approval = { batchId: batch.id, approvedBy: 'ben', digest: batch.digest ?? '' };
    expect(await codeOf(small.batches.approve(approval))).toBe('BOUNDS_EXCEEDED');
    expect(await large.batches.approve(approval)).toMatchObject({ approved: 6 });
  });

  test('OP-9: is cancelled as a whole, but for those that have ended, and can then be submitted anew', async () => {
    const { client } = desk();
    const batch = await client.submitMany(people(450, 455), FIRST);
    await client.batches.approve({ batchId: batch.id, approvedBy: 'ben', digest: batch.digest ?? '' });
    const [first] = await office.own<{ id: string }>(
      `SELECT id FROM entity_deletion_requests WHERE batch_id = '${batch.id}' AND status = 'approved' ORDER BY batch_position`,
    );
    await client.requests.run(first?.id ?? '', { executorId: 'w', signal: new AbortController().signal });
    const order = { batchId: batch.id, by: 'cara', reason: 'the wrong list' };
    expect(await client.batches.cancel(order)).toEqual({ batch_id: batch.id, cancelled: 5, past_return: 0 });
    expect((await client.batches.show(batch.id)).statuses).toEqual({ completed: 1, cancelled: 5 });
    expect(await client.batches.cancel(order)).toMatchObject({ cancelled: 0 });
    expect(await codeOf(client.batches.cancel({ ...order, batchId: first?.id ?? '' }))).toBe('UNKNOWN_REQUEST');
    expect((await client.submitMany(people(451, 453), { ...FIRST, idempotencyKey: 'again' })).left_out).toBe(0);
  });

  test('takes as many statements to submit and to approve for a hundred as for ten', async () => {
    const { client, statements } = desk();
    const counts = [];
    for (const [from, to] of [
      [200, 209],
      [300, 399],
    ] as const) {
      statements.length = 0;
      const batch = await client.submitMany(people(from, to), FIRST);
      const submitted = statements.length;
      statements.length = 0;
      await client.batches.approve({ batchId: batch.id, approvedBy: 'ben', digest: batch.digest ?? '' });
      counts.push([submitted, statements.length]);
    }
    expect(counts[1]).toEqual(counts[0]);
  });
});
