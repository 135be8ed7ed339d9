import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeWithPostgres } from '../../test/support/postgres.js';
import {
  dump,
  expireLease,
  makeDue,
  openEmbeddedRecord,
  openServerRecord,
  readableLog,
  type TestRecord,
} from '../../test/support/record.js';
import type { RunEnd } from '../engine/advance.js';
import type { Handler, Workflow } from '../engine/workflow.js';
import { claimOne } from '../requests/claim.js';
import { inventoryDigest } from '../evidence/inventory-digest.js';
import { COMMUNITY_B as B, COMMUNITY_C as C } from '../workflows/user-deletion/inventory.js';
import { userDeletion } from '../workflows/user-deletion/workflow.js';
import type { Rehearsal } from '../workflows/user-deletion/handlers.js';
import { DeletionRecord, type ShownRequest } from './record.js';
import { submitUserDeletion } from './user-deletions.js';

const NONE = '01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f';
const ended: RunEnd = { kind: 'ended', status: 'completed' };

describe('user deletions on PGlite', () => suite(openEmbeddedRecord));
describeWithPostgres('user deletions on PostgreSQL', () => {
  suite(openServerRecord);
  races();
});

const rehearsal = (faults: Partial<Rehearsal>): readonly Workflow[] => [
  userDeletion({ noAgentsIn: new Set(), failStage: null, stageDelayMs: 0, ...faults }),
];

/** The training workflow, with one handler of its own. */
function withHandler(
  stage: 'gate_user' | 'purge_db' | 'purge_agents',
  handler: (plain: Handler) => Handler,
): readonly Workflow[] {
  const plain = userDeletion();
  const own = plain.handlers[stage] as Handler;
  return [{ ...plain, handlers: { ...plain.handlers, [stage]: handler(own) } }];
}

class Office {
  readonly database: TestRecord['database'];
  readonly record: DeletionRecord;
  readonly log = readableLog();
  #last = 0;

  constructor({ database }: TestRecord) {
    this.database = database;
    this.record = new DeletionRecord(database, this.log.log, [userDeletion()]);
  }

  submit() {
    this.#last += 1;
    return submitUserDeletion(this.database, { target: `demo:test-${this.#last}`, requestedBy: 'anna' });
  }

  async approved(): Promise<string> {
    const { id, inventory_digest } = await this.submit();
    await this.record.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest });
    return id;
  }

  run(
    id: string,
    budget?: number,
    workflows: readonly Workflow[] = [],
    signal = new AbortController().signal,
  ): Promise<RunEnd> {
    return this.record.run(
      id,
      { executorId: 'runner', signal, ...(budget === undefined ? {} : { budget }) },
      workflows,
    );
  }

  show(id: string): Promise<ShownRequest> {
    return this.record.show(id);
  }

  /** What stands where: `stage community status`, the current one marked. */
  async path(id: string): Promise<readonly string[]> {
    const { stages } = await this.show(id);
    return stages.map((row) => {
      const place = row.target_community_id === null ? '' : ` ${row.target_community_id.slice(-1)}`;
      return `${row.stage}${place} ${row.status}${row.is_current ? ' *' : ''}`;
    });
  }

  /** That `work` is refused with this code and leaves every row as it was. Returns the message. */
  async refused(code: string, work: () => Promise<unknown>): Promise<string> {
    const before = await dump(this.database);
    const error = await work().then(
      () => null,
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ code, outcome: 'refused' });
    expect(await dump(this.database)).toEqual(before);
    return (error as Error).message;
  }

  async events(id: string): Promise<readonly string[]> {
    return (await this.show(id)).events.map(({ event }) => event);
  }

  async sql(statement: string, values: readonly string[] = []): Promise<void> {
    const parts = statement.split('?');
    const query = parts.map(
      (part, index) => sql`${sql.raw(part)}${index < values.length ? sql`${values[index]}` : sql``}`,
    );
    await sql`${sql.join(query, sql``)}`.execute(this.database.db);
  }
}

function suite(open: () => Promise<TestRecord>): void {
  let test_: TestRecord;
  let office: Office;
  beforeAll(async () => {
    test_ = await open();
    office = new Office(test_);
  });
  afterAll(() => test_.close());

  test('EX-1: approval saves itself and the status together, and creates no stage', async () => {
    const { id, inventory_digest } = await office.submit();
    const approval = { requestId: id.toUpperCase(), approvedBy: ' Ben ', inventoryDigest: inventory_digest };
    expect(await office.record.approve(approval)).toMatchObject({
      status: 'approved',
      approved_by: 'Ben',
      approvals: 1,
    });
    const { request, approvals, stages } = await office.show(id);
    expect(request.status).toBe('approved');
    expect(approvals).toMatchObject([{ approved_by: 'Ben', inventory_digest }]);
    expect(stages).toEqual([]);
  });

  test('OP-3: approvals that are refused, each with its reason', async () => {
    const { id, inventory_digest } = await office.submit();
    const approve = (change: Partial<Parameters<DeletionRecord['approve']>[0]>) => () =>
      office.record.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest, ...change });
    await office.refused('UNKNOWN_REQUEST', approve({ requestId: NONE }));
    await office.refused('UNKNOWN_REQUEST', approve({ requestId: 'no id' }));
    expect(await office.refused('DIGEST_MISMATCH', approve({ inventoryDigest: 'a'.repeat(64) }))).toContain(
      inventory_digest,
    );
    await office.refused('APPROVER_IS_REQUESTER', approve({ approvedBy: ' ANNA ' }));
    await office.refused('INVALID_OPERATOR', approve({ approvedBy: '\u0000' }));
    await approve({})();
    expect(await office.refused('ALREADY_APPROVED_BY', approve({ approvedBy: 'BEN ' }))).toContain(
      'by this person already',
    );
    await office.refused('NOT_AWAITING_APPROVAL', approve({ approvedBy: 'carl' }));
    // OP-10: the log alone knows of them.
    const refusals = (await office.show(id)).events.filter(({ event }) => event === 'refused');
    expect(refusals.map(({ actor, detail }) => [actor, detail['code']])).toEqual([
      ['ben', 'DIGEST_MISMATCH'],
      [' ANNA ', 'APPROVER_IS_REQUESTER'],
      ['BEN ', 'ALREADY_APPROVED_BY'],
      ['carl', 'NOT_AWAITING_APPROVAL'],
    ]);
  });

  test('OP-3, EX-25: an inventory that no longer validates, or has another digest, is not approved', async () => {
    const { id, inventory_digest } = await office.submit();
    const approve = () =>
      office.record.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest });
    await plantInventory(office, id, { ...(await inventoryOf(office, id)), communities: [] });
    await office.refused('INVALID_INVENTORY', approve);
    const swapped = { ...(await inventoryOf(office, id)), communities: [{ id: C, role: 'participant' }] };
    await plantInventory(office, id, swapped);
    const before = await dump(office.database);
    await expect(approve()).rejects.toMatchObject({ code: 'RECORD_INTEGRITY' });
    expect(await dump(office.database)).toEqual(before);
  });

  test('OP-2: a target with a live request is refused, naming it; one that has ended is in nobody’s way', async () => {
    const { id, target } = await office.submit();
    const again = () => submitUserDeletion(office.database, { target, requestedBy: 'carl' });
    expect(await office.refused('LIVE_REQUEST_EXISTS', again)).toContain(id);
    expect(await office.events(id)).toEqual(['submitted', 'refused']);
    await office.record.cancel({ requestId: id, by: 'ben', reason: 'a mistake' });
    expect((await again()).id).not.toBe(id);
  });

  test('OP-5, OP-6: five steps, each of one handler and its transition', async () => {
    const id = await office.approved();
    const seen = [];
    for (let step = 1; step <= 5; step += 1) {
      const { kind } = await office.run(id, 1);
      const { request } = await office.show(id);
      expect(request).toMatchObject({ lease_owner: null, lease_expires_at: null });
      seen.push([kind, (await office.path(id)).at(-1)]);
      expect((await office.path(id)).slice(0, -1).every((row) => row.endsWith(' completed'))).toBe(true);
    }
    expect(seen).toEqual([
      ['budget', 'purge_db b pending *'],
      ['budget', 'purge_agents b pending *'],
      ['budget', 'purge_db c pending *'],
      ['budget', 'purge_agents c pending *'],
      ['ended', 'purge_agents c completed'],
    ]);
  });

  test('a whole run, with a community that has no agents', async () => {
    const id = await office.approved();
    expect(await office.run(id, undefined, rehearsal({ noAgentsIn: new Set([B]) }))).toEqual(ended);
    expect(await office.path(id)).toEqual([
      'gate_user completed',
      'purge_db b completed',
      'purge_db c completed',
      'purge_agents c completed',
    ]);
    const { stages } = await office.show(id);
    expect(stages.map(({ metadata_json }) => metadata_json.transition?.['decision'])).toEqual([
      ...['enter_communities', 'community_complete', 'purge_agents', 'community_complete'],
    ]);
    expect(stages[1]?.metadata_json.inputs).toMatchObject({
      target: 'demo:test-6',
      community: { id: B, role: 'participant' },
    });
  });

  test('EX-12: a run ends when its budget of handler calls is used, after a committed transition', async () => {
    const id = await office.approved();
    expect(await office.run(id, 3)).toEqual({ kind: 'budget', stage: 'purge_db', place: C });
    expect((await office.show(id)).request).toMatchObject({ status: 'running', lease_owner: null });
    expect(await office.run(id)).toEqual(ended);
  });

  test('EX-18: a saved success is used, and its handler does not run again; the transition is not the step (OP-5)', async () => {
    const id = await office.approved();
    await crashAfterSave(office, id);
    expect(await office.path(id)).toEqual(['gate_user completed *']);
    let gates = 0;
    const counting = withHandler('gate_user', (plain) => (runs, context) => {
      gates += 1;
      return plain(runs, context);
    });
    expect(await office.run(id, 1, counting)).toMatchObject({ kind: 'budget', stage: 'purge_agents', place: B });
    expect(gates).toBe(0);
  });

  test('EX-19: a run of an ended request succeeds and changes nothing, not even a timestamp', async () => {
    const id = await office.approved();
    await office.run(id);
    const cancelled = (await office.submit()).id;
    await office.record.cancel({ requestId: cancelled, by: 'ben', reason: 'a mistake' });
    const before = [await dump(office.database), await office.events(id), await office.events(cancelled)];
    expect(await office.run(id)).toEqual(ended);
    expect(await office.run(id.toUpperCase())).toEqual(ended);
    expect(await office.run(cancelled)).toEqual({ kind: 'ended', status: 'cancelled' });
    expect([await dump(office.database), await office.events(id), await office.events(cancelled)]).toEqual(before);
  });

  test('EX-17: a failure waits for its deadline and says when; then the same row resumes', async () => {
    const id = await office.approved();
    await office.run(id, 1);
    const end = await office.run(id, 1, rehearsal({ failStage: 'purge_db' }));
    const { request, stages } = await office.show(id);
    expect(end).toMatchObject({ kind: 'waiting', status: 'retry_wait', until: request.next_attempt_at });
    expect(request).toMatchObject({ status: 'retry_wait', retry_count: 1, lease_owner: null });
    const failed = stages.at(-1);
    expect((request.next_attempt_at?.getTime() ?? 0) - (failed?.finished_at?.getTime() ?? 0)).toBe(30_000);
    const message = await office.refused('NOT_DUE', () => office.run(id));
    expect(message).toContain(request.next_attempt_at?.toISOString());
    await makeDue(office.database, id);
    expect(await office.run(id, 1)).toMatchObject({ kind: 'budget', stage: 'purge_agents' });
    const after = await office.show(id);
    expect(after.stages.find((row) => row.id === failed?.id)).toMatchObject({
      status: 'completed',
      attempts: 2,
      started_at: failed?.started_at,
    });
    expect(after.request).toMatchObject({ status: 'running', retry_count: 0, next_attempt_at: null, last_error: null });
  });

  test('OP-10: runs that are refused leave every row as it was', async () => {
    await office.refused('UNKNOWN_REQUEST', () => office.run(NONE));
    const { id, inventory_digest } = await office.submit();
    expect(await office.refused('WRONG_STATUS', () => office.run(id))).toContain('has to be approved first');
    await office.refused('INVALID_OPERATOR', () =>
      office.record.run(id, { executorId: 'a\u0000b', signal: new AbortController().signal }),
    );
    await office.record.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest });
    await office.database.transaction((tx) => claimOne(tx, id, 'other'));
    expect(await office.refused('LEASED', () => office.run(id))).toContain('by other until');
    await expireLease(office.database, id);
    await office.sql('UPDATE expunge.entity_deletion_requests SET status = ? WHERE id = ?::uuid', ['blocked', id]);
    expect(await office.refused('WRONG_STATUS', () => office.run(id))).toContain('expunge unblock');
    await office.sql(
      'UPDATE expunge.entity_deletion_requests SET status = ?, workflow_version = 7 WHERE id = ?::uuid',
      ['approved', id],
    );
    await office.refused('UNREGISTERED_VERSION', () => office.run(id));
  });

  test('EX-27: an inventory of another version is refused before it is claimed', async () => {
    const id = await office.approved();
    await plantInventory(office, id, { version: 2 });
    await office.refused('UNREGISTERED_VERSION', () => office.run(id));
  });

  test('EX-25: a request whose target was changed is not run', async () => {
    const id = await office.approved();
    await office.sql('UPDATE expunge.entity_deletion_requests SET target = ? WHERE id = ?::uuid', [
      'demo:somebody-else',
      id,
    ]);
    const before = await dump(office.database);
    await expect(office.run(id)).rejects.toMatchObject({ code: 'RECORD_INTEGRITY' });
    expect(await dump(office.database)).toEqual(before);
  });

  test('EX-11: an operator’s run leaves a history that does not fit as it is, and gives it back', async () => {
    const id = await office.approved();
    await office.run(id, 2);
    await office.sql(
      `UPDATE expunge.entity_deletion_stage_history SET metadata_json = metadata_json || '{"result": {}}' WHERE request_id = ?::uuid AND stage = 'purge_db'`,
      [id],
    );
    const before = await office.path(id);
    const end = await office.run(id);
    expect(end).toMatchObject({ kind: 'error', error: { code: 'RECORD_INTEGRITY' } });
    expect(String((end as { error: unknown }).error)).toContain('has no saved has_agents');
    expect(await office.path(id)).toEqual(before);
    expect((await office.show(id)).request).toMatchObject({ status: 'running', lease_owner: null });
  });

  describe('OP-9: cancel', () => {
    const cancel = (id: string) => office.record.cancel({ requestId: id, by: 'carl', reason: 'a mistake' });

    test.each(['submitted', 'approved'])('of a request that is %s ends it at once', async (status) => {
      const id = status === 'submitted' ? (await office.submit()).id : await office.approved();
      expect(await cancel(id)).toEqual({ id, status: 'cancelled', pending_with: null });
      const { request, orders, stages } = await office.show(id);
      expect(request).toMatchObject({ status: 'cancelled', standing_order: null, lease_owner: null });
      expect(request.completed_at).toBeInstanceOf(Date);
      expect(orders).toMatchObject([{ kind: 'cancel', ordered_by: 'carl' }]);
      expect(orders[0]?.ended_at).toBeInstanceOf(Date);
      expect(stages).toEqual([]);
      const { events } = await office.show(id);
      expect(JSON.stringify(events)).not.toContain('a mistake');
      await office.refused('WRONG_STATUS', () => cancel(id));
    });

    test('closes an unfinished gate as completed, with the result cancelled', async () => {
      const id = await office.approved();
      await office.run(id, 1, rehearsal({ failStage: 'gate_user' }));
      expect(await cancel(id)).toMatchObject({ status: 'cancelled' });
      const { request, stages } = await office.show(id);
      expect(request).toMatchObject({ retry_count: 0, next_attempt_at: null });
      expect(stages).toMatchObject([
        { status: 'completed', is_current: false, metadata_json: { result: { cancelled: true } } },
      ]);
    });

    test('is refused when the gate has completed, also where its transition is missing', async () => {
      const id = await office.approved();
      await crashAfterSave(office, id);
      await office.refused('POINT_OF_NO_RETURN', () => cancel(id));
      await office.run(id, 1);
      await office.refused('POINT_OF_NO_RETURN', () => cancel(id));
    });

    test('while a worker runs the gate is saved as cancelled, whatever the gate had to say', async () => {
      const id = await office.approved();
      const answers: unknown[] = [];
      const end = await office.run(
        id,
        undefined,
        withHandler('gate_user', (plain) => async (runs, context) => {
          answers.push(await cancel(id));
          // No intent passes it any more.
          answers.push(await context.save(new Map()));
          return plain(runs, context);
        }),
      );
      expect(answers[0]).toEqual({ id, status: 'running', pending_with: 'runner' });
      expect(end).toEqual({ kind: 'ended', status: 'cancelled' });
      expect((await office.show(id)).stages).toMatchObject([
        { status: 'completed', metadata_json: { result: { cancelled: true } } },
      ]);
    });

    test('while a worker runs keeps it from saving an intent, and its answer from being used', async () => {
      const id = await office.approved();
      const saved: unknown[] = [];
      const end = await office.run(
        id,
        undefined,
        withHandler('gate_user', (plain) => async (runs, context) => {
          await cancel(id);
          await office.refused('ORDER_STANDS', () => cancel(id));
          saved.push(await context.save(new Map([[id, { intent: 'to erase' }]])));
          return plain(runs, context);
        }),
      );
      expect(saved).toEqual([new Set()]);
      expect(end).toEqual({ kind: 'ended', status: 'cancelled' });
      expect((await office.show(id)).stages[0]?.metadata_json).not.toHaveProperty('intent');
    });

    test.each(['a run', 'a second cancel'])('that its worker did not live to see is carried out by %s', async (how) => {
      const id = await office.approved();
      const { signal } = new AbortController();
      await office.database.transaction((tx) => claimOne(tx, id, 'dead'));
      expect(await cancel(id)).toMatchObject({ pending_with: 'dead' });
      await expireLease(office.database, id);
      if (how === 'a run') await office.run(id, undefined, [], signal);
      else await cancel(id);
      expect((await office.show(id)).request).toMatchObject({ status: 'cancelled', standing_order: null });
    });

    test('ends a hold that stands', async () => {
      const id = await office.approved();
      await office.record.hold({ requestId: id, by: 'carl', reason: 'wait', until: null });
      expect(await cancel(id)).toMatchObject({ status: 'cancelled' });
      const { request, orders } = await office.show(id);
      expect(request).toMatchObject({ held_status: null, standing_order: null });
      expect(orders.every(({ ended_at }) => ended_at !== null)).toBe(true);
      expect(await office.events(id)).toEqual([
        'submitted',
        'approved',
        'hold_ordered',
        'hold_ended',
        'cancel_ordered',
        'cancelled',
      ]);
    });
  });

  describe('OP-9, WF-30: hold', () => {
    const hold = (id: string, until: Date | null = null) =>
      office.record.hold({ requestId: id, by: 'carl', reason: 'a question', until });
    const end = (id: string) => office.record.endHold({ requestId: id, by: 'carl' });
    const passed = (id: string) =>
      office.sql(
        `UPDATE expunge.deletion_orders SET until = clock_timestamp() - interval '1 s' WHERE request_id = ?::uuid`,
        [id],
      );
    const nextYear = new Date(Date.now() + 365 * 86_400_000);

    test('pauses a request where it is, and ends early', async () => {
      const id = await office.approved();
      await office.run(id, 2);
      expect(await hold(id, nextYear)).toEqual({ id, status: 'held', pending_with: null });
      expect((await office.show(id)).request).toMatchObject({
        status: 'held',
        held_status: 'running',
        standing_order: 'hold',
      });
      await office.refused('WRONG_STATUS', () => office.run(id));
      await office.refused('ORDER_STANDS', () => hold(id));
      expect(await end(id)).toMatchObject({ status: 'running' });
      await office.refused('WRONG_STATUS', () => end(id));
      expect(await office.run(id)).toEqual(ended);
    });

    test('keeps the deadline of a retry', async () => {
      const id = await office.approved();
      await office.run(id, 1, rehearsal({ failStage: 'gate_user' }));
      const { next_attempt_at } = (await office.show(id)).request;
      await hold(id);
      await end(id);
      expect((await office.show(id)).request).toMatchObject({ status: 'retry_wait', next_attempt_at, retry_count: 1 });
    });

    test.each([
      ['a run', (id: string) => office.run(id).then(() => undefined)],
      [
        'a new hold',
        (id: string) =>
          hold(id)
            .then(() => end(id))
            .then(() => office.run(id))
            .then(() => undefined),
      ],
      [
        'a worker',
        async (id: string) => {
          const stop = new AbortController();
          await office.record.work({ executorId: 'w', signal: stop.signal, once: true });
          await office.run(id);
        },
      ],
    ])('that ends by its time is over for %s', async (_who, goOn) => {
      const id = await office.approved();
      await hold(id, nextYear);
      await passed(id);
      await goOn(id);
      expect((await office.show(id)).request).toMatchObject({
        status: 'completed',
        standing_order: null,
        held_status: null,
      });
    });

    test('that ends by its time is over for an approver', async () => {
      const { id, inventory_digest } = await office.submit();
      await hold(id, nextYear);
      const approve = () =>
        office.record.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest });
      await office.refused('NOT_AWAITING_APPROVAL', approve);
      await passed(id);
      expect(await approve()).toMatchObject({ status: 'approved' });
    });

    test('into the past, or without a reason, is refused', async () => {
      const id = await office.approved();
      await office.refused('INVALID_ORDER', () => hold(id, new Date(0)));
      await office.refused('INVALID_ORDER', () => hold(id, new Date(Number.NaN)));
      await office.refused('INVALID_ORDER', () =>
        office.record.hold({ requestId: id, by: 'c', reason: '  ', until: null }),
      );
      await office.refused('UNKNOWN_REQUEST', () => hold(NONE));
    });

    const duringStage = (stage: 'gate_user' | 'purge_agents', id: string, faults: 'completes' | 'fails') =>
      withHandler(stage, (plain) => async (runs, context) => {
        if (runs[0]?.stage.target_community_id !== B) {
          expect(await hold(id)).toMatchObject({ status: 'running', pending_with: 'runner' });
        }
        if (faults === 'completes') return plain(runs, context);
        return { outcomes: new Map([[id, { kind: 'failed' as const, error: 'X', retryable: true }]]) };
      });

    test('while a worker runs takes effect at its next transition', async () => {
      const id = await office.approved();
      const result = await office.run(id, undefined, duringStage('gate_user', id, 'completes'));
      expect(result).toMatchObject({ kind: 'waiting', status: 'held' });
      expect(await office.path(id)).toEqual(['gate_user completed', 'purge_db b pending *']);
      expect((await office.show(id)).request).toMatchObject({
        status: 'held',
        held_status: 'running',
        lease_owner: null,
      });
    });

    test('while a worker runs takes effect at its next save', async () => {
      const id = await office.approved();
      const result = await office.run(id, undefined, duringStage('gate_user', id, 'fails'));
      expect(result).toMatchObject({ kind: 'waiting', status: 'held' });
      const { request } = await office.show(id);
      expect(request).toMatchObject({ status: 'held', held_status: 'retry_wait', retry_count: 1, lease_owner: null });
    });

    test('during the last stage also stops the end, which destroys what cannot be had back', async () => {
      const id = await office.approved();
      await office.run(id, 4);
      const result = await office.run(id, undefined, duringStage('purge_agents', id, 'completes'));
      expect(result).toMatchObject({ kind: 'waiting', status: 'held' });
      expect((await office.path(id)).at(-1)).toBe('purge_agents c completed *');
      expect((await office.show(id)).request).toMatchObject({ completed_at: null, lease_owner: null });
      await end(id);
      expect(await office.run(id)).toEqual(ended);
    });

    test('that its worker did not live to see holds at the next claim', async () => {
      const id = await office.approved();
      await office.database.transaction((tx) => claimOne(tx, id, 'dead'));
      await hold(id, nextYear);
      await expireLease(office.database, id);
      expect(await office.run(id)).toEqual({ kind: 'waiting', status: 'held', until: nextYear, why: null });
    });
  });

  describe('OP-9: unblock', () => {
    const unblock = (id: string) => office.record.unblock({ requestId: id, by: 'carl', reason: 'repaired' });
    const blocked = async () => {
      const id = await office.approved();
      await office.run(
        id,
        undefined,
        withHandler('gate_user', () => async () => ({
          outcomes: new Map([[id, { kind: 'failed' as const, error: 'BROKEN', retryable: false }]]),
        })),
      );
      return id;
    };

    test('lets it go on, and keeps what went wrong', async () => {
      const id = await blocked();
      expect((await office.show(id)).request).toMatchObject({ status: 'blocked', blocked_reason: 'BROKEN' });
      await office.refused('WRONG_STATUS', () => office.run(id));
      expect(await unblock(id)).toMatchObject({ status: 'running' });
      const { request, stages } = await office.show(id);
      expect(request).toMatchObject({ status: 'running', retry_count: 0, blocked_at: null, last_error: 'BROKEN' });
      expect(stages[0]?.last_error).toBe('BROKEN');
      expect(await office.run(id)).toEqual(ended);
      expect(await office.events(id)).toContain('blocked');
    });

    test('is refused for what is not blocked', async () => {
      const id = await office.approved();
      await office.refused('WRONG_STATUS', () => unblock(id));
      await office.refused('UNKNOWN_REQUEST', () => unblock(NONE));
    });

    test('of a request that was held meanwhile leaves it held', async () => {
      const id = await blocked();
      await office.sql(`UPDATE expunge.entity_deletion_requests SET standing_order = 'hold' WHERE id = ?::uuid`, [id]);
      expect(await unblock(id)).toMatchObject({ status: 'held' });
      expect((await office.show(id)).request).toMatchObject({ held_status: 'running', standing_order: 'hold' });
    });
  });

  test('EX-26: a worker never claims a user deletion', async () => {
    const id = await office.approved();
    const before = await dump(office.database);
    await office.record.work({ executorId: 'w', signal: new AbortController().signal, once: true });
    expect(await dump(office.database)).toEqual(before);
    expect((await office.show(id)).request.status).toBe('approved');
  });

  test('EX-26: nothing of it can be deleted, and approvals and inventories cannot be changed', async () => {
    const id = await office.approved();
    await office.run(id, 1);
    for (const table of [
      'entity_deletion_requests',
      'entity_deletion_inventories',
      'entity_deletion_approvals',
      'deletion_events',
    ]) {
      const column = table === 'entity_deletion_requests' ? 'id' : 'request_id';
      await expect(office.sql(`DELETE FROM expunge.${table} WHERE ${column} = ?::uuid`, [id])).rejects.toMatchObject({
        code: expect.stringMatching(/^23/) as string,
      });
    }
    await expect(
      office.sql(`UPDATE expunge.entity_deletion_approvals SET approved_by = 'x' WHERE request_id = ?::uuid`, [id]),
    ).rejects.toMatchObject({ code: '23001' });
  });

  test('EX-20: a run that is stopped leaves its row current, counts no retry and gives it back', async () => {
    const id = await office.approved();
    const stop = new AbortController();
    const slow = withHandler('gate_user', () => async (_runs, { signal }) => {
      stop.abort();
      signal.throwIfAborted();
      throw new Error('it went on');
    });
    expect(await office.run(id, undefined, slow, stop.signal)).toEqual({ kind: 'interrupted' });
    expect(await office.path(id)).toEqual(['gate_user running *']);
    expect((await office.show(id)).request).toMatchObject({ status: 'running', retry_count: 0, lease_owner: null });
    const before = await dump(office.database);
    expect(await office.run(id, undefined, [], stop.signal)).toEqual({ kind: 'interrupted' });
    expect(await dump(office.database)).toEqual(before);
  });
}

async function inventoryOf(office: Office, id: string) {
  return (await office.show(id)).inventories[0]?.inventory ?? {};
}

/** As nobody can who is not the owner of the tables. */
async function plantInventory(office: Office, id: string, inventory: object): Promise<void> {
  await office.sql('ALTER TABLE expunge.entity_deletion_inventories DISABLE TRIGGER append_only');
  await office.sql('UPDATE expunge.entity_deletion_inventories SET inventory = ?::jsonb WHERE request_id = ?::uuid', [
    JSON.stringify(inventory),
    id,
  ]);
  await office.sql('ALTER TABLE expunge.entity_deletion_inventories ENABLE TRIGGER append_only');
}

/** Runs the gate, and does not come to its transition. */
async function crashAfterSave(office: Office, id: string): Promise<void> {
  const plain = userDeletion();
  let gated = false;
  const crashing: Workflow = {
    ...plain,
    policy: {
      ...plain.policy,
      decide: (input) => {
        if (gated) throw new Error('the process has died');
        return plain.policy.decide(input);
      },
    },
    handlers: {
      ...plain.handlers,
      gate_user: (runs, context) => {
        gated = true;
        return (plain.handlers['gate_user'] as Handler)(runs, context);
      },
    },
  };
  await office.run(id, undefined, [crashing]);
}

function races(): void {
  let test_: TestRecord;
  let office: Office;
  beforeAll(async () => {
    test_ = await openServerRecord();
    office = new Office(test_);
  });
  afterAll(() => test_.close());

  const settled = async <T>(work: readonly Promise<T>[]) => {
    const results = await Promise.allSettled(work);
    return {
      done: results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : [])),
      refused: results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : [])),
    };
  };

  test('OP-2: of many submits for one target at once, one is accepted and the others are told of it', async () => {
    const submit = () => submitUserDeletion(office.database, { target: 'demo:raced', requestedBy: 'anna' });
    const { done, refused } = await settled(Array.from({ length: 8 }, submit));
    expect(done).toHaveLength(1);
    for (const error of refused) expect(error).toMatchObject({ code: 'LIVE_REQUEST_EXISTS', requestId: done[0]?.id });
  });

  test('OP-3: of many approvals by one person at once, one is saved', async () => {
    const { id, inventory_digest } = await office.submit();
    const approve = (approvedBy: string) =>
      office.record.approve({ requestId: id, approvedBy, inventoryDigest: inventory_digest });
    const { done, refused } = await settled(['ben', 'BEN', ' ben', 'Ben '].map(approve));
    expect(done).toHaveLength(1);
    for (const error of refused) expect(error).toMatchObject({ code: 'ALREADY_APPROVED_BY' });
  });

  test('EX-1: of two that are required, the last one moves the request, also where both come at once', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { id, inventory_digest } = await office.submit();
      await office.sql('UPDATE expunge.entity_deletion_requests SET approvals_required = 2 WHERE id = ?::uuid', [id]);
      const approve = (approvedBy: string) =>
        office.record.approve({ requestId: id, approvedBy, inventoryDigest: inventory_digest });
      const { done } = await settled([approve('ben'), approve('carl')]);
      expect(done.map(({ status }) => status).sort()).toEqual(['approved', 'submitted']);
      expect((await office.show(id)).request.status).toBe('approved');
    }
  });

  test('EX-21: of two runs at once exactly one runs; the other is refused, or finds that all is done', async () => {
    const id = await office.approved();
    const { done, refused } = await settled(Array.from({ length: 6 }, () => office.run(id)));
    for (const end of done) expect(end).toEqual(ended);
    for (const error of refused) expect(error).toMatchObject({ code: 'LEASED' });
    const { request, stages } = await office.show(id);
    expect(request).toMatchObject({ status: 'completed', lease_generation: 1 });
    expect(stages.every(({ attempts }) => attempts === 1)).toBe(true);
  });

  test('OP-9: a cancel that races with a run ends it as cancelled or is too late, and nothing else', async () => {
    for (let round = 0; round < 10; round += 1) {
      const id = await office.approved();
      const [end, order] = await Promise.allSettled([
        office.run(id),
        office.record.cancel({ requestId: id, by: 'carl', reason: 'a mistake' }),
      ]);
      const { request, orders } = await office.show(id);
      expect(['completed', 'cancelled']).toContain(request.status);
      if (order.status === 'rejected') {
        expect(order.reason).toMatchObject({
          code: expect.stringMatching(/POINT_OF_NO_RETURN|WRONG_STATUS/) as string,
        });
      }
      expect(request.status).toBe(order.status === 'fulfilled' ? 'cancelled' : 'completed');
      if (end.status === 'fulfilled') expect(end.value).toEqual({ kind: 'ended', status: request.status });
      expect(request).toMatchObject({ standing_order: null, lease_owner: null });
      expect(orders.every(({ ended_at }) => ended_at !== null)).toBe(true);
    }
  });
}

test('the digest of a training request is the documented one', () => {
  // Whoever has the inventory can compute it: no key, no salt (EX-25).
  const inventory = {
    version: 1,
    workflow: 'user-deletion',
    target: 'demo:a',
    communities: [{ id: B, role: 'participant' }],
  };
  const digest = userDeletion().digest({ id: NONE, target: 'demo:a' } as never, inventory);
  expect(digest).toBe(
    inventoryDigest({
      schemaVersion: 1,
      workflow: 'user-deletion',
      workflowVersion: 1,
      commitment: 'demo:a',
      inventory,
    }),
  );
});
