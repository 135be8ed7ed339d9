/** Five hundred subjects in one batch: as many statements as for five. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eraseBatch } from './support/erasure-batch.js';
import { openOffice, type Office } from './support/erasure-office.js';
import { describeWithPostgres } from './support/postgres.js';

describeWithPostgres('a large batch of erasures', () => {
  let office: Office;
  beforeAll(async () => {
    office = await openOffice();
  });
  afterAll(() => office.close());

  test('WF-15: five hundred subjects take as many statements as five, in either database', async () => {
    const few = await eraseBatch(office, 1001, 1005);
    const many = await eraseBatch(office, 2001, 2500);
    expect(new Set([...few.statuses, ...many.statuses])).toEqual(new Set(['completed']));
    // The erase of 500 subjects is 4,500 rows: one slice.
    expect({ own: many.own, shop: many.shop }).toEqual({ own: few.own, shop: few.shop });
  });
});
