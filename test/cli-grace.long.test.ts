import { afterAll, beforeAll, expect, test } from 'vitest';
import { openWorkplace, until, type Workplace } from './support/cli.js';
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
    await workplace.sql('ROLLBACK');
    // The server notices that the process is gone; what it was still waiting to do is rolled back, or found too late.
    await until(async () => (await openTransactions()) === 0);
    expect(await requestOf(workplace, id)).toMatchObject({ status: 'running', retry_count: 0 });
  });

  async function openTransactions(): Promise<number> {
    const [row] = await workplace.sql<{ count: number }>(
      `SELECT count(*)::integer AS count FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE '%transaction%'`,
    );
    return row?.count ?? 0;
  }
});
