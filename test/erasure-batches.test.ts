/** Many subjects at once (WF-15): one that cannot be erased stops alone, and statements do not grow with subjects. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { addCustomers, eraseBatch, workOnce } from './support/erasure-batch.js';
import { openOffice, type Office } from './support/erasure-office.js';
import { describeWithPostgres } from './support/postgres.js';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

describeWithPostgres('a batch of erasures', () => {
  let office: Office;
  beforeAll(async () => {
    office = await openOffice();
  });
  afterAll(() => office.close());

  test('takes as many statements for thirty subjects as for three, in either database', async () => {
    const few = await eraseBatch(office, 1001, 1003);
    const many = await eraseBatch(office, 1101, 1130);
    expect([...few.statuses, ...many.statuses]).toEqual(Array(33).fill('completed'));
    expect({ own: many.own, shop: many.shop }).toEqual({ own: few.own, shop: few.shop });
  });

  test('completes all but the one whose row the store refuses to delete, which is blocked with the reason', async () => {
    await addCustomers(office, 2001, 2050);
    await office.query(`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          IF OLD.customer_id = 2017 THEN RAISE EXCEPTION 'row of 2017' USING ERRCODE = 'check_violation'; END IF;
          RETURN OLD;
        END $$;
      CREATE TRIGGER refuse BEFORE DELETE ON visit FOR EACH ROW EXECUTE FUNCTION refuse()`);
    const desk = office.desk();
    const ids = new Map<number, string>();
    for (let customer = 2001; customer <= 2050; customer += 1) ids.set(customer, await desk.approved(customer));
    const rows = await office.rows();
    await workOnce(desk);

    const statuses = await Promise.all(
      [...ids].map(async ([customer, id]) => [customer, await desk.status(id)] as const),
    );
    expect(statuses.filter(([, status]) => status !== 'completed')).toEqual([[2017, 'blocked']]);
    const { request } = await desk.client.requests.show(ids.get(2017) as string);
    expect(request.blocked_reason).toMatch(/^operational: TARGET_BLOCKED: .*visit.*23514/);
    expect(request.blocked_reason).not.toContain('2017');
    expect(await desk.client.get(request.id)).toMatchObject({ status: 'failed', targets: { operational: 'failed' } });

    // The others' rows are gone, and nobody else's are.
    const after = await office.rows();
    const gone = (table: string) => (rows[table]?.length ?? 0) - (after[table]?.length ?? 0);
    expect([gone('invoice'), gone('invoice_line'), gone('search_log')].map((n) => n >= 49 * 2)).toEqual([
      true,
      true,
      true,
    ]);
    expect(gone('visit')).toBe(49);
    expect(await office.query('SELECT FROM visit WHERE customer_id = 2017')).toHaveLength(1);
    for (const table of ['customer', 'session']) expect(after[table]).toEqual(rows[table]);

    // When the store lets go, the one goes on.
    await office.query('DROP TRIGGER refuse ON visit');
    await desk.client.requests.unblock({ requestId: request.id, by: 'cara', reason: 'the trigger is gone' });
    await workOnce(desk);
    expect(await desk.status(request.id)).toBe('completed');
    expect(await office.query('SELECT FROM visit WHERE customer_id = 2017')).toEqual([]);
  });
});
