import { afterAll, beforeAll, expect, test } from 'vitest';
import { v7 as uuidv7 } from 'uuid';
import { submit } from '../src/requests/submit.js';
import { digestOf } from '../src/workflows/user-deletion/inventory.js';
import { openWorkplace, startProcess, until, type Workplace } from './support/cli.js';
import { describeWithPostgres } from './support/postgres.js';
import { approved, atWork, path, requestOf, run, stagesOf } from './support/training.js';

/** Backends that wait for a lock in the test's database. */
const WAITING = `datname = current_database() AND wait_event_type = 'Lock'`;

describeWithPostgres('how commands end', () => {
  let workplace: Workplace;
  beforeAll(async () => {
    workplace = await openWorkplace();
  });
  afterAll(() => workplace.close());

  test('OP-7, EX-17: a failure ends with 1 and tells its deadline; a run before it is refused with 2', async () => {
    const id = await approved(workplace);
    const failed = await workplace.expunge('user-deletions', 'run', id, '--fail-stage', 'gate_user');
    const { next_attempt_at, status, retry_count } = await requestOf(workplace, id);
    const deadline = next_attempt_at?.toISOString() ?? 'none';
    expect({ status, retry_count }).toEqual({ status: 'retry_wait', retry_count: 1 });
    expect(failed.code).toBe(1);
    expect(failed.stderr).toMatch(/^expunge: [^\n]+\n$/);
    expect(failed.stderr).toContain(deadline);
    expect(JSON.parse(failed.stdout)).toMatchObject({ id, status: 'retry_wait', next_attempt_at: deadline });

    const before = await workplace.everyRow();
    const early = await workplace.expunge('run', id);
    expect(early).toMatchObject({ code: 2, stdout: '' });
    expect(early.stderr).toContain(deadline);
    expect(await workplace.everyRow()).toEqual(before);
  });

  test('OP-7: the eighth failure in a row blocks, with 1 and the way out', async () => {
    const id = await approved(workplace);
    // The transition into the stage clears the count, so that it comes first.
    await run(workplace, id, 0);
    await workplace.sql(`UPDATE entity_deletion_requests SET retry_count = 7 WHERE id = $1`, [id]);
    const blocked = await workplace.expunge('user-deletions', 'run', id, '--fail-stage', 'gate_user');
    expect(blocked.code).toBe(1);
    expect(blocked.stderr).toContain(`expunge unblock ${id}`);
    expect(JSON.parse(blocked.stdout)).toMatchObject({ status: 'blocked', next_attempt_at: null });
  });

  test('EX-19: a run of a completed request ends with 0 and changes nothing', async () => {
    const id = await approved(workplace);
    await run(workplace, id);
    const before = await workplace.everyRow();
    expect(await workplace.expunge('run', id)).toMatchObject({ code: 0, stderr: '' });
    expect(await workplace.everyRow()).toEqual(before);
  });

  test('EX-12, OP-7: 100 stages are one run; it ends with 75 and says how to go on', async () => {
    const id = await manyCommunities(60);
    const first = await workplace.expunge('run', id);
    expect(first.code).toBe(75);
    expect(first.stderr).toContain(`expunge run ${id}`);
    expect(JSON.parse(first.stdout)).toMatchObject({
      end: 'budget',
      status: 'running',
      current: { status: 'pending' },
    });
    const stages = await stagesOf(workplace, id);
    expect(stages.filter(({ status }) => status === 'completed')).toHaveLength(100);
    expect(await requestOf(workplace, id)).toMatchObject({ lease_owner: null });
    expect(await workplace.expunge('run', id)).toMatchObject({ code: 0 });
  });

  test('OP-7, OP-9: a hold that comes during a run takes effect at the next save, and the run ends with 75', async () => {
    const id = await approved(workplace);
    const { ended } = workplace.start(['user-deletions', 'run', id, '--stage-delay-ms', '3000', '--executor-id', 'e1']);
    await atWork(workplace, id);
    const held = await workplace.expunge(
      ...['hold', id, '--by', 'carl', '--until', '2999-01-01T00:00:00Z', '--reason', 'legal asks to wait'],
    );
    expect(JSON.parse(held.stdout)).toMatchObject({ id, pending_with: 'e1' });
    expect(held.stderr).toContain('e1');
    const { code, stderr } = await ended;
    expect(code).toBe(75);
    expect(stderr).toContain('held');
    expect(await requestOf(workplace, id)).toMatchObject({ status: 'held', lease_owner: null });
  });

  test('EX-20, EX-21: one executor at a time; Ctrl-C leaves the row current, ownership free and no retry counted', async () => {
    const id = await approved(workplace);
    const run = ['user-deletions', 'run', id, '--stage-delay-ms', '60000', '--executor-id'];
    for (const [signal, expected] of [
      ['SIGINT', 130],
      ['SIGTERM', 143],
    ] as const) {
      const { child, ended } = workplace.start([...run, 'e1']);
      await atWorkBy('e1', id);
      const { lease_expires_at } = await requestOf(workplace, id);
      const other = await workplace.expunge(...run, 'e2');
      expect(other).toMatchObject({ code: 2, stdout: '' });
      expect(other.stderr).toContain('e1');
      expect(other.stderr).toContain(lease_expires_at?.toISOString().slice(0, 10));

      child.kill(signal);
      expect(await ended).toMatchObject({ code: expected, stdout: '' });
      expect(await path(workplace, id)).toEqual(['gate_user running*']);
      expect(await requestOf(workplace, id)).toMatchObject({
        status: 'running',
        lease_owner: null,
        lease_expires_at: null,
        retry_count: 0,
        last_error: null,
        next_attempt_at: null,
      });
    }
    const [interrupted] = await stagesOf(workplace, id);
    expect(await workplace.expunge('run', id)).toMatchObject({ code: 0 });
    expect((await stagesOf(workplace, id))[0]).toMatchObject({
      id: interrupted?.id,
      started_at: interrupted?.started_at,
      status: 'completed',
    });
  });

  test('EX-20: a second signal leaves at once, and the lease to expire', async () => {
    const id = await approved(workplace);
    const { child, ended } = workplace.start(['user-deletions', 'run', id, '--stage-delay-ms', '60000']);
    await atWork(workplace, id);
    const free = await lockRow(id);
    try {
      child.kill('SIGINT');
      // It wants to give its ownership back, and cannot.
      await until(async () => (await waitingBackends()) > 0);
      child.kill('SIGINT');
      expect(await ended).toMatchObject({ code: 130 });
      // The server still has the statement of the process that is gone, and would carry it out.
      await workplace.sql(`SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE ${WAITING}`);
    } finally {
      await free();
    }
    const { lease_owner, status } = await requestOf(workplace, id);
    expect({ status, isOwned: lease_owner !== null }).toEqual({ status: 'running', isOwned: true });
  });

  test('OP-7: a database that cannot be reached is 69, in one line without its password', async () => {
    const env = { EXPUNGE_DATABASE_URL: 'postgres://somebody:hunter2@127.0.0.1:1/expunge' };
    const { code, stdout, stderr } = await startProcess(['list'], { env, cwd: workplace.directory }).ended;
    expect({ code, stdout }).toEqual({ code: 69, stdout: '' });
    expect(stderr).toMatch(/^expunge: [^\n]+127\.0\.0\.1:1[^\n]+\n$/);
    expect(stderr).not.toContain('hunter2');
  });

  test('OP-7: saved rows that contradict each other fail with 1 and name the row', async () => {
    const id = await approved(workplace);
    await run(workplace, id, 2);
    const [gate] = await stagesOf(workplace, id);
    await workplace.sql(`UPDATE entity_deletion_stage_history SET stage = 'gate_robot' WHERE id = $1`, [gate?.id]);
    const { code, stdout, stderr } = await workplace.expunge('run', id);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(gate?.id);
  });

  async function atWorkBy(owner: string, id: string): Promise<void> {
    await until(async () => (await requestOf(workplace, id)).lease_owner === owner);
    await atWork(workplace, id);
  }

  async function waitingBackends(): Promise<number> {
    const [row] = await workplace.sql<{ count: number }>(
      `SELECT count(*)::integer AS count FROM pg_stat_activity WHERE ${WAITING}`,
    );
    return row?.count ?? 0;
  }

  /** Locks a request's row until the returned function is called. */
  async function lockRow(id: string): Promise<() => Promise<void>> {
    await workplace.sql('BEGIN');
    await workplace.sql('SELECT FROM entity_deletion_requests WHERE id = $1 FOR UPDATE', [id]);
    return async () => {
      await workplace.sql('ROLLBACK');
    };
  }

  /** An approved request whose inventory has so many communities. */
  async function manyCommunities(count: number): Promise<string> {
    const id = uuidv7();
    const communities = Array.from({ length: count }, () => ({ id: uuidv7(), role: 'participant' }));
    const inventory = { version: 1, workflow: 'user-deletion', target: `demo:${id}`, communities };
    const inventoryDigest = digestOf(inventory, id, inventory.target);
    await workplace.database.transaction((tx) =>
      submit(tx, [
        {
          ...{ id, workflow: 'user-deletion', workflowVersion: 1, target: inventory.target, subjectReference: null },
          ...{ inventory, inventoryDigest, requestedBy: 'anna', reasonCode: null, idempotencyKey: null },
          ...{ approvalsRequired: 1, dueAt: null, sealed: [] },
        },
      ]),
    );
    await workplace.record.approve({ requestId: id, approvedBy: 'ben', inventoryDigest });
    return id;
  }
});
