/** Ten thousand people from a file to the end, as an operator does it: a submit that was killed, one approval, two workers. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { until } from './support/cli.js';
import {
  addCrowd,
  crowdTablesText,
  FIRST_OF_CROWD,
  HELD,
  leftOfCrowd,
  PROTECTED,
  recommend,
  writeCrowd,
} from './support/crowd.js';
import { describeWithPostgres } from './support/postgres.js';
import { openShopOffice, type ShopOffice } from './support/shop-office.js';
import { openSmallShop, type SmallShop } from './support/small-shop.js';

vi.setConfig({ testTimeout: 20 * 60_000 });

const SIZE = 10_000;

interface Batch {
  readonly id: string;
  readonly digest: string;
  readonly members: number;
  readonly refused: number;
  readonly left_out: number;
  readonly statuses: Readonly<Record<string, number>>;
}

describeWithPostgres('ten thousand people', () => {
  let shop: SmallShop;
  let office: ShopOffice;
  beforeAll(async () => {
    shop = await openSmallShop();
    await addCrowd(shop, SIZE);
    office = await openShopOffice(shop);
    await office.configure('expunge.config.mjs', {
      tables: crowdTablesText,
      fields: `protected: { customerId: ['${PROTECTED}'] },`,
    });
    await writeCrowd(join(office.directory, 'crowd.csv'), SIZE);
  });
  afterAll(async () => {
    await office.close();
    await shop.close();
  });

  const written = async () => Number((await shop.own('SELECT count(*) AS n FROM entity_deletion_requests'))[0]?.n);

  test('go, but for two, each blocked with a reason of its own in one line', async () => {
    const submit = ['submit', '--from', 'crowd.csv', '--requested-by', 'anna', '--reason-code', 'ACCOUNTS_CLOSED'];
    const killed = office.start(submit);
    await until(async () => (await written()) > 0);
    killed.child.kill('SIGKILL');
    await killed.ended;
    expect(await written()).toBeLessThan(SIZE);

    const batch = await office.json<Batch>(submit);
    expect(batch).toMatchObject({ members: SIZE - 1, refused: 1, left_out: 0 });
    expect(await written()).toBe(SIZE);
    await office.json(['approve', batch.id, '--approved-by', 'ben', '--inventory-digest', batch.digest]);
    await recommend(shop);

    const workers = await Promise.all([
      office.start(['worker', '--once']).ended,
      office.start(['worker', '--once']).ended,
    ]);
    // Blocked is what a script has to hear of; the other one may not have met it.
    expect(workers.map(({ code }) => code).sort()).toEqual([0, 1]);
    const { statuses } = await office.json<Batch>(['show', batch.id]);
    expect(statuses).toEqual({ blocked: 2, completed: SIZE - 2 });

    const list = await office.expunge(['list', '--batch', batch.id, '--status', 'blocked', '--no-json']);
    const lines = list.stdout.trimEnd().split('\n').slice(1);
    expect(lines).toHaveLength(2);
    expect(lines.filter((line) => line.includes('PROTECTED_SUBJECT: '))).toHaveLength(1);
    expect(lines.filter((line) => /TARGET_BLOCKED: .*"recommendation"/.test(line))).toHaveLength(1);
    expect(await leftOfCrowd(shop)).toEqual([PROTECTED, HELD]);
    expect(HELD).toBeLessThan(FIRST_OF_CROWD + SIZE);
  });
});
