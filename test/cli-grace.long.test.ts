import { afterAll, beforeAll, expect, test } from 'vitest';
import { openWorkplace, type Workplace } from './support/cli.js';
import { describeWithPostgres } from './support/postgres.js';
import { approved, atWork, requestOf } from './support/training.js';

describeWithPostgres('the grace after a signal', () => {
  let workplace: Workplace;
  beforeAll(async () => {
    workplace = await openWorkplace();
  });
  afterAll(() => workplace.close());

  test('EX-20: work that does not settle in 10 s is left behind, with its lease', async () => {
    const id = await approved(workplace);
    const { child, ended } = workplace.start(['user-deletions', 'run', id, '--stage-delay-ms', '600000']);
    await atWork(workplace, id);
    // It cannot give its ownership back while somebody else has the row.
    await workplace.sql('BEGIN');
    await workplace.sql('SELECT FROM entity_deletion_requests WHERE id = $1 FOR UPDATE', [id]);
    const signalledAt = performance.now();
    child.kill('SIGTERM');
    const { code } = await ended;
    // Node's timers and this clock may differ by a little.
    expect(performance.now() - signalledAt).toBeGreaterThan(9_900);
    expect(code).toBe(143);
    // The server still has the statement of the process that is gone, and would carry it out.
    await workplace.sql(
      `SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    await workplace.sql('ROLLBACK');
    const { lease_owner, status, retry_count } = await requestOf(workplace, id);
    expect({ isOwned: lease_owner !== null, status, retry_count }).toEqual({
      isOwned: true,
      status: 'running',
      retry_count: 0,
    });
  });
});
