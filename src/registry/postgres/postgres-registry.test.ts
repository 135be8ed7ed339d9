import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startPostgresProxy } from '../../../test/support/postgres-proxy.js';
import { describeWithPostgres } from '../../../test/support/postgres.js';
import { openEmbeddedRecord, openServerRecord } from '../../../test/support/record.js';
import {
  aMark,
  aReference,
  everyChangeThrows,
  everyTombstone,
  registryConformance,
  rowOf,
  watchedRegistry,
} from '../../../test/support/registry-conformance.js';
import { openPostgres } from '../../storage/postgres/postgres-database.js';

describe('the registry on PGlite', () => {
  registryConformance(openEmbeddedRecord);
});

describeWithPostgres('the registry on PostgreSQL', () => {
  registryConformance(openServerRecord);

  describe('what only a server can do to it', () => {
    let record: Awaited<ReturnType<typeof openServerRecord>>;
    let admin: pg.Client;
    beforeAll(async () => {
      record = await openServerRecord();
      admin = new pg.Client(record.url);
      await admin.connect();
    });
    afterAll(async () => {
      await admin.end();
      await record.close();
    });

    it('REG-1, REG-4: a privilege that was revoked is UNKNOWN, one ERROR, counted; and every change throws', async () => {
      const role = `expunge_test_${randomBytes(6).toString('hex')}`;
      await admin.query(`CREATE ROLE ${role} LOGIN`);
      await admin.query(`GRANT USAGE ON SCHEMA expunge TO ${role}`);
      const url = new URL(record.url);
      url.username = role;
      const database = openPostgres({ url: url.href });
      const { registry, lines, counters } = watchedRegistry(database);
      try {
        const mark = aMark();
        expect(await registry.getDeletionStatus(mark.references[0] as string)).toMatchObject({ status: 'UNKNOWN' });
        expect(lines).toMatchObject([{ level: 'error', event: 'registry_read_failed', code: '42501' }]);
        expect(counters.snapshot()).toMatchObject([{ labels: { backend: 'postgres' }, value: 1 }]);
        await everyChangeThrows(registry, mark, '42501');
      } finally {
        await database.close();
        await admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
      }
    });

    it('REG-1, REG-4: a connection that is refused is UNKNOWN, one ERROR, counted; and every change throws', async () => {
      const proxy = await startPostgresProxy(record.url);
      const database = openPostgres({ url: proxy.url });
      const { registry, lines, counters } = watchedRegistry(database);
      try {
        const mark = aMark();
        proxy.set('down');
        expect(await registry.getDeletionStatus(mark.references[0] as string)).toMatchObject({ status: 'UNKNOWN' });
        expect(lines).toMatchObject([{ level: 'error', event: 'registry_read_failed', code: 'DATABASE_UNAVAILABLE' }]);
        expect(counters.total('expunge_registry_read_failures_total')).toBe(1);
        await everyChangeThrows(registry, mark, 'DATABASE_UNAVAILABLE');
        proxy.set('none');
        expect(await registry.getDeletionStatus(mark.references[0] as string)).toMatchObject({ status: 'NOT_DELETED' });
        expect(lines).toHaveLength(1);
      } finally {
        await database.close();
        await proxy.close();
      }
    });

    it('REG-11: a mark that waited for a newer first row of its subject does not take itself for the one that stands', async () => {
      const { registry } = watchedRegistry(record.database);
      const mark = aMark({ generation: 100 });
      const [reference] = mark.references as [string];
      await admin.query('BEGIN');
      await admin.query(
        `INSERT INTO expunge.deletion_tombstones (reference, state, generation, deleted_generation, group_id)
         VALUES ($1, 'in_progress', 200, 200, gen_random_uuid())`,
        [reference],
      );
      const marking = registry.mark([mark]);
      await waitsForLock(record.url);
      await admin.query('COMMIT');
      expect([...(await marking).values()]).toEqual(['superseded']);
      expect(await rowOf(record.database, reference)).toMatchObject({ generation: 200 });
    });

    it('REG-11: a change that waited for another one goes by what it finds then', async () => {
      const { registry } = watchedRegistry(record.database);
      const mark = aMark();
      const [reference] = mark.references as [string];
      await registry.mark([mark]);
      await registry.markErased([mark]);
      await admin.query('BEGIN');
      await admin.query(`UPDATE expunge.deletion_tombstones SET state = 'in_progress' WHERE reference = $1`, [
        reference,
      ]);
      const marking = registry.markErased([mark]);
      await waitsForLock(record.url);
      await admin.query('COMMIT');
      expect([...(await marking).values()]).toEqual(['marked']);
      expect(await rowOf(record.database, reference)).toMatchObject({ state: 'erased' });
    });

    it('marks of the same subjects at once neither deadlock nor lose the newest', async () => {
      const { registry } = watchedRegistry(record.database);
      const references = Array.from({ length: 60 }, aReference);
      const shuffled = (seed: number) => references.toSorted((x, y) => order(x, seed) - order(y, seed));
      const workers = Array.from({ length: 8 }, async (_, worker) => {
        for (let round = 0; round < 10; round += 1) {
          const generation = 1 + round * 8 + worker;
          const marks = shuffled(generation).map((reference) => aMark({ references: [reference], generation }));
          await registry.mark(marks);
          await registry.markErased(marks);
          await registry.reopen(marks);
        }
      });
      await Promise.all(workers);
      for (const reference of references) {
        expect(await rowOf(record.database, reference)).toMatchObject({ generation: 80, state: 'in_progress' });
      }
      expect(new Set(await everyTombstone(record.database)).size).toBeGreaterThanOrEqual(60);
    });
  });
});

/** An order of references that is another one for each seed. */
function order(reference: string, seed: number): number {
  return reference.charCodeAt(12 + (seed % 40)) * 7 + reference.charCodeAt(13 + (seed % 30));
}

/** Waits until some session of the database waits for a lock. */
async function waitsForLock(url: string): Promise<void> {
  const watcher = new pg.Client(url);
  await watcher.connect();
  try {
    for (;;) {
      const { rowCount } = await watcher.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      );
      if (rowCount !== null && rowCount > 0) return;
    }
  } finally {
    await watcher.end();
  }
}
