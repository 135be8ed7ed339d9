/** A worker that is killed between the end of access and the first delete (WF-13, WF-24). */
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { verifyReceipts } from '../src/evidence/verify-receipts.js';
import { decodeReceipts } from './support/chinook-deletion.js';
import { until } from './support/cli.js';
import { describeWithPostgres } from './support/postgres.js';
import { openShopOffice, type ShopOffice } from './support/shop-office.js';
import { openSmallShop, rowsOfOne, type SmallShop } from './support/small-shop.js';

describeWithPostgres('a worker that is killed before it erased anything', () => {
  let shop: SmallShop;
  let office: ShopOffice;
  beforeAll(async () => {
    shop = await openSmallShop();
    office = await openShopOffice(shop);
  });
  afterAll(async () => {
    await office.close();
    await shop.close();
  });

  test(
    'WF-13, WF-24: access is over and the tombstone stands; WF-20: the resumed run counts what the killed one ended',
    { timeout: 120_000 },
    async () => {
      const client = await shop.client();
      const { id, inventory_digest } = await client.submit({ customerId: '5' }, { requestedBy: 'anna' });
      await client.requests.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest });
      const before = await shop.rows();
      const session = await shop.query<{ row: string }>('SELECT s::text AS row FROM session s WHERE customer_id = 5');

      // Somebody else has a lock on what is erased first, so that the erase stands before its first delete.
      const reader = new pg.Client(shop.url);
      await reader.connect();
      await reader.query(`BEGIN;
        SELECT FROM invoice_line JOIN invoice USING (invoice_id) WHERE customer_id = 5 FOR UPDATE;
        SELECT FROM search_log JOIN visit ON no = visit_no WHERE customer_id = 5 FOR UPDATE`);
      const { child, ended } = office.start(['worker', '--once']);
      await until(async () => {
        const [stage] = await shop.own<{ intent: unknown }>(
          `SELECT metadata_json -> 'intent' AS intent FROM entity_deletion_stage_history
            WHERE request_id = $1 AND stage = 'erase' AND is_current AND status = 'running'`,
          [id],
        );
        return stage !== undefined && stage.intent !== null;
      });
      child.kill('SIGKILL');
      await ended;
      expect(child.signalCode).toBe('SIGKILL');

      expect(await office.json(['status', '--subject', 'customerId=5'])).toMatchObject({
        status: 'DELETED',
        state: 'in_progress',
      });
      expect(await shop.rows()).toEqual({
        ...before,
        session: before['session']?.filter((row) => row !== session[0]?.row),
      });

      await reader.end();
      await shop.own(
        `UPDATE entity_deletion_requests SET lease_expires_at = clock_timestamp() - interval '1 ms' WHERE id = $1`,
        [id],
      );
      expect(await office.json(['run', id])).toMatchObject({ end: 'ended', status: 'completed' });
      const exported = await client.exportReceipts(id);
      expect((await verifyReceipts(exported, shop.keys.verification)).verified).toBe(true);
      const [receipt] = decodeReceipts(exported);
      expect(Object.fromEntries((receipt?.places ?? []).map(({ place, removed }) => [place, removed]))).toEqual(
        rowsOfOne,
      );
    },
  );
});
