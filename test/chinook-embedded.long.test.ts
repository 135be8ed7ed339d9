/** The same customer, where Expunge's own database is the embedded one and a worker does the work. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openPGlite } from '../src/storage/pglite/pglite-database.js';
import { sql } from 'kysely';
import { everythingIn, hasChinook, type MusicShop, openMusicShop, planted, tracesIn } from './support/chinook.js';
import { decodeReceipts, deleteThePerson, type Deletion, verifyElsewhere } from './support/chinook-deletion.js';
import { describeWithPostgres } from './support/postgres.js';

describe.skipIf(!hasChinook)('Chinook [EXPUNGE_TEST_SHARED_DIR says where its data is]', () => {
  describeWithPostgres('a customer who was deleted with the record in the embedded database', () => {
    let shop: MusicShop;
    let deletion: Deletion;
    let before: Readonly<Record<string, string>>;

    beforeAll(async () => {
      shop = await openMusicShop();
      before = await shop.tables();
      deletion = await deleteThePerson(shop, { database: null, by: 'worker' });
    }, 600_000);
    afterAll(async () => {
      await Promise.all([shop.close(), rm(deletion.directory, { recursive: true, force: true })]);
    });

    test('WF-20, WF-22: is counted by receipts that verify off-line', async () => {
      const places = decodeReceipts(deletion.exported).flatMap((receipt) => receipt.places ?? []);
      expect(Object.fromEntries(places.map(({ place, removed }) => [place, removed]))).toEqual(planted);
      expect(await verifyElsewhere(deletion)).toMatchObject({ code: 0 });
      expect(deletion.status).toMatchObject({ status: 'DELETED', state: 'complete' });
    });

    test('WF-2, WF-14: is nowhere, and everybody else is as before', async () => {
      expect(await shop.tables()).toEqual(before);
      expect(tracesIn(await everythingIn(shop.url))).toEqual([]);
      expect(tracesIn(deletion.said)).toEqual([]);
      const kept = await everythingKept(join(deletion.directory, '.expunge'));
      expect(kept).toContain(deletion.id);
      expect(tracesIn(kept)).toEqual([]);
    });
  });
});

/** Every row of every table of an embedded database, as text. */
async function everythingKept(directory: string): Promise<string> {
  const database = openPGlite({ directory });
  try {
    const { rows: tables } = await sql<{ name: string }>`
      SELECT relname AS name FROM pg_class WHERE relnamespace = 'expunge'::regnamespace AND relkind = 'r'`.execute(
      database.db,
    );
    const texts = [];
    for (const { name } of tables) {
      texts.push(
        await sql<{ row: string }>`SELECT r::text AS row FROM ${sql.id('expunge', name)} r`.execute(database.db),
      );
    }
    texts.push(await sql<{ row: string }>`SELECT s::text AS row FROM pg_statistic s`.execute(database.db));
    return texts.flatMap(({ rows }) => rows.map(({ row }) => row)).join('\n');
  } finally {
    await database.close();
  }
}
