import { afterAll, beforeAll, expect, test } from 'vitest';
import { openWorkplace, type Workplace } from './support/cli.js';
import { describeWithPostgres } from './support/postgres.js';
import { approved, path, requestOf, run } from './support/training.js';

const REASON = 'the ticket was withdrawn';

describeWithPostgres('orders of operators', () => {
  let workplace: Workplace;
  beforeAll(async () => {
    workplace = await openWorkplace();
  });
  afterAll(() => workplace.close());

  const by = (verb: string, id: string, ...flags: readonly string[]) =>
    workplace.expunge(verb, id, '--by', 'carl', '--reason', REASON, ...flags);

  test('OP-9: cancel works until the gate has completed, and closes its row', async () => {
    const id = await approved(workplace);
    await run(workplace, id, 0);
    const { code, stdout } = await by('cancel', id);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ id, status: 'cancelled', pending_with: null });
    expect(await path(workplace, id)).toEqual(['gate_user completed']);
    const events = await workplace.sql<{ event: string; detail: unknown }>(
      'SELECT event, detail FROM deletion_events WHERE request_id = $1 ORDER BY id',
      [id],
    );
    expect(events.map(({ event }) => event)).toContain('cancel_ordered');
    expect(JSON.stringify(events)).not.toContain(REASON);
    expect(await workplace.expunge('run', id)).toMatchObject({ code: 0 });
  });

  test('OP-9, OP-10: after the gate a cancel is refused, in and without the group, and changes no row', async () => {
    const id = await approved(workplace);
    await run(workplace, id, 1);
    const before = await workplace.everyRow();
    for (const group of [[], ['user-deletions']]) {
      const refused = await workplace.expunge(...group, 'cancel', id, '--by', 'carl', '--reason', REASON);
      expect(refused).toMatchObject({ code: 2, stdout: '' });
      expect(refused.stderr).toMatch(/^expunge: [^\n]*point of no return[^\n]*\n$/);
    }
    expect(await workplace.everyRow()).toEqual(before);
  });

  test('OP-9: a hold pauses, --end ends it, and the request goes on from where it was', async () => {
    const id = await approved(workplace);
    await run(workplace, id, 1);
    const held = await by('hold', id, '--until', '2999-01-31T18:00+01:00');
    expect(JSON.parse(held.stdout)).toMatchObject({ status: 'held', pending_with: null });
    const [order] = await workplace.sql('SELECT kind, until, reason FROM deletion_orders WHERE request_id = $1', [id]);
    expect(order).toEqual({ kind: 'hold', until: new Date('2999-01-31T17:00:00Z'), reason: REASON });
    const refused = await workplace.expunge('run', id);
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toContain(`expunge hold ${id}`);

    const ended = await workplace.expunge('hold', id, '--by', 'carl', '--end');
    expect(JSON.parse(ended.stdout)).toMatchObject({ status: 'running' });
    expect(await workplace.expunge('run', id)).toMatchObject({ code: 0 });
  });

  test('OP-9: unblock lets a blocked request go on and keeps what went wrong', async () => {
    const id = await approved(workplace);
    await run(workplace, id, 0);
    await workplace.sql(
      `UPDATE entity_deletion_requests
          SET status = 'blocked', blocked_at = clock_timestamp(), blocked_reason = 'E1', last_error = 'E1' WHERE id = $1`,
      [id],
    );
    const list = await workplace.expunge('list', '--status', 'blocked', '--no-json');
    expect(list.stdout).toMatch(new RegExp(`${id} .*blocked.*E1`));
    const { stdout } = await by('unblock', id);
    expect(JSON.parse(stdout)).toMatchObject({ status: 'running' });
    expect(await requestOf(workplace, id)).toMatchObject({ blocked_reason: null, last_error: 'E1' });
    expect(await workplace.expunge('run', id)).toMatchObject({ code: 0 });
    expect(await by('unblock', id)).toMatchObject({ code: 2, stdout: '' });
  });
});
