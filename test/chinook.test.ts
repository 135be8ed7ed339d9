/** One customer of a real shop, from the first command to the verified receipt, and then looked for everywhere. */
import { rm } from 'node:fs/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  everythingIn,
  hasChinook,
  type MusicShop,
  openMusicShop,
  plainDump,
  planted,
  traces,
  tracesIn,
} from './support/chinook.js';
import { decodeReceipts, deleteThePerson, type Deletion, verifyElsewhere } from './support/chinook-deletion.js';
import { createTestDatabase, describeWithPostgres, type TestDatabase } from './support/postgres.js';

describe.skipIf(!hasChinook)('Chinook [EXPUNGE_TEST_SHARED_DIR says where its data is]', () => {
  describeWithPostgres('a customer who was deleted from the shop and its files', () => {
    let shop: MusicShop;
    let own: TestDatabase;
    let deletion: Deletion;
    let before: {
      readonly tables: Readonly<Record<string, string>>;
      readonly artifacts: Readonly<Record<string, string>>;
      readonly invoices: readonly number[];
      readonly tracesInRows: readonly string[];
      readonly tracesInStatistics: readonly string[];
    };

    beforeAll(async () => {
      [shop, own] = await Promise.all([openMusicShop(), createTestDatabase()]);
      const statistics = await shop.query<{ row: string }>('SELECT s::text AS row FROM pg_stats s');
      before = {
        tables: await shop.tables(),
        artifacts: await shop.artifacts(),
        invoices: await shop.invoices(),
        tracesInRows: tracesIn(await everythingIn(shop.url)),
        tracesInStatistics: tracesIn(statistics.map(({ row }) => row).join()),
      };
      deletion = await deleteThePerson(shop, { database: own.url, by: 'run' });
    }, 300_000);
    afterAll(async () => {
      await Promise.all([shop.close(), own.drop(), rm(deletion.directory, { recursive: true, force: true })]);
    });

    test('was in rows, in statistics and in files before', () => {
      expect(before.tracesInRows).toEqual(traces);
      expect(before.tracesInStatistics).toEqual(traces);
      expect(before.invoices).toHaveLength(planted.invoice);
      expect(Object.keys(before.artifacts)).toEqual(
        expect.arrayContaining(before.invoices.map((invoice) => `${invoice}.pdf`)),
      );
    });

    test('WF-6, WF-20: the inventory and the receipts count what was planted', () => {
      expect(deletion.counts).toEqual(planted);
      const receipts = decodeReceipts(deletion.exported);
      expect(receipts.map(({ kind, target, state }) => [kind, target, state])).toEqual([
        ['target', 'operational', 'erased'],
        ['target', 'artifacts', 'erased'],
        ['final', undefined, undefined],
      ]);
      const places = receipts.flatMap((receipt) => receipt.places ?? []);
      expect(Object.fromEntries(places.map(({ place, removed }) => [place, removed]))).toEqual(planted);
      expect(places.every(({ left }) => left === 0)).toBe(true);
      expect(deletion.status).toMatchObject({ status: 'DELETED', state: 'complete' });
      expect(deletion.shown).toMatchObject({ request: { status: 'completed', lease_owner: null } });
    });

    test('WF-22: the receipts verify off-line, with the public key alone', async () => {
      const { code, stdout } = await verifyElsewhere(deletion);
      expect({ code, ...(JSON.parse(stdout) as object) }).toMatchObject({ code: 0, verified: true, receipts: 3 });
    });

    test('WF-14: every other row and every other file is as it was', async () => {
      expect(await shop.tables()).toEqual(before.tables);
      const theirs = new Set(before.invoices.map((invoice) => `${invoice}.pdf`));
      const others = Object.entries(before.artifacts).filter(([name]) => !theirs.has(name));
      expect(Object.entries(await shop.artifacts())).toEqual(others);
    });

    test('WF-2, WF-5: nothing that was printed, logged or kept holds the person, and nothing sealed is left', async () => {
      expect(deletion.said).toContain('"event":"stage_completed"');
      expect(tracesIn(deletion.said)).toEqual([]);
      const receipts = decodeReceipts(deletion.exported).map((receipt) => JSON.stringify(receipt));
      expect(tracesIn(receipts.join())).toEqual([]);
      const kept = await everythingIn(own.url);
      expect(kept).toContain(deletion.id);
      expect(tracesIn(kept)).toEqual([]);
      expect(await ownRows('deletion_sealed_identifiers', own.url)).toBe(0);
    });

    test('WF-23: the shop does not hold the person either, in its statistics neither, and the receipt says why', async () => {
      expect(tracesIn(await everythingIn(shop.url))).toEqual([]);
      const [operational] = decodeReceipts(deletion.exported);
      const cleaned = operational?.physical.cleanup ?? [];
      expect(cleaned.map(({ place }) => place).sort()).toEqual(
        ['customer', 'invoice', 'invoice_line', 'session', 'support_note'].sort(),
      );
      for (const { did } of cleaned) expect(did).toEqual(['vacuum', 'analyze']);
    });

    test('WF-2: a dump of either database does not hold the person', async ({ skip }) => {
      const dumps = await Promise.all([plainDump(shop.url), plainDump(own.url)]);
      if (dumps.includes(null)) return skip('there is no pg_dump here that reads this server');
      const [ofShop, ofOwn] = dumps.map(String);
      expect(ofShop).toContain('COPY public.customer ');
      expect(ofOwn).toContain('COPY expunge.deletion_receipts ');
      expect(dumps.map((dump) => tracesIn(String(dump)))).toEqual([[], []]);
    });
  });
});

async function ownRows(table: string, url: string): Promise<number> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query<{ rows: number }>(`SELECT count(*)::int AS rows FROM expunge.${table}`);
  await client.end();
  return rows[0]?.rows ?? Number.NaN;
}
