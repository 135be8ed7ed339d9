import { type RawBuilder, sql } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeWithPostgres } from '../../test/support/postgres.js';
import { dump, expireLease, openServerRecord, plant } from '../../test/support/record.js';
import { block } from './block.js';
import { claimOne } from './claim.js';
import type { Decision } from './decision.js';
import { release } from './release.js';
import { renew } from './renew.js';
import type { Lease } from './request.js';
import { saveOutcomes } from './save-outcomes.js';
import { saveProgress } from './save-progress.js';
import { readSnapshot } from './snapshot.js';
import { startStages } from './start-stages.js';
import { transition } from './transition.js';

const ENTER: Decision = {
  kind: 'enter',
  stage: 'knead',
  place: null,
  inputs: { step: 0 },
  transition: { decision: 'next' },
};

describeWithPostgres('ownership', () => {
  let record: Awaited<ReturnType<typeof openServerRecord>>;
  beforeAll(async () => {
    record = await openServerRecord();
  });
  afterAll(() => record.close());

  const { claim, move, start } = {
    claim: async (id: string, owner = 'worker-1'): Promise<Lease> =>
      (await record.database.transaction((tx) => claimOne(tx, id, owner))).lease,
    move: (lease: Lease, decision: Decision = ENTER, expectedStageId: string | null = null) =>
      record.database.transaction((tx) =>
        transition(tx, [{ requestId: lease.requestId, lease, expectedStageId }], { decide: () => decision }),
      ),
    start: (lease: Lease, stageId: string) => startStages(record.database, [{ lease, stageId }]),
  };

  /** A request that stands at a running stage, and has failed before: a transition has something to clear. */
  async function running(): Promise<{ id: string; lease: Lease; stageId: string }> {
    const [id] = (await plant(record.database, 1)) as [string];
    const lease = await claim(id);
    await move(lease);
    const { db, t } = record.database;
    await sql`UPDATE ${t.requests} SET retry_count = 1 WHERE id = ${id}::uuid`.execute(db);
    const stageId = (await readSnapshot(record.database, id))?.stages[0]?.id ?? '';
    await start(lease, stageId);
    return { id, lease, stageId };
  }

  /** A session beside the product's, which keeps rows locked for as long as a test wants. */
  async function beside<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = new pg.Client({ connectionString: record.url });
    await client.connect();
    try {
      await client.query('SET search_path = expunge');
      return await work(client);
    } finally {
      await client.end();
    }
  }

  const lock = async (client: pg.Client, id: string) => {
    await client.query('BEGIN');
    await client.query('SELECT 1 FROM entity_deletion_requests WHERE id = $1 FOR UPDATE', [id]);
  };

  /** Asked on a connection without a transaction: in one, pg_stat_activity stays as it was when first looked at. */
  async function holds(condition: RawBuilder<boolean>): Promise<boolean> {
    const { rows } = await sql<{ met: boolean }>`SELECT (${condition}) AS met`.execute(record.database.db);
    return rows[0]?.met === true;
  }

  async function until(condition: RawBuilder<boolean>): Promise<void> {
    while (!(await holds(condition)));
  }

  const somebodyWaits = sql<boolean>`EXISTS (
    SELECT FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = 'expunge')`;

  const writes: readonly (readonly [string, (lease: Lease, stageId: string) => Promise<unknown>])[] = [
    ['start', (lease, stageId) => start(lease, stageId)],
    [
      'save of a result',
      (lease, stageId) =>
        saveOutcomes(record.database, [{ lease, stageId, outcome: { kind: 'completed', result: { a: 1 } } }]),
    ],
    [
      'save of a failure',
      (lease, stageId) =>
        saveOutcomes(record.database, [{ lease, stageId, outcome: { kind: 'failed', error: 'X', retryable: true } }]),
    ],
    [
      'save of a revision',
      (lease, stageId) =>
        saveOutcomes(record.database, [
          {
            lease,
            stageId,
            outcome: { kind: 'revised', why: 'X', inventory: { version: 1, n: 2 }, inventoryDigest: 'b'.repeat(64) },
          },
        ]),
    ],
    ['save of progress', (lease, stageId) => saveProgress(record.database, [{ lease, stageId, cursor: 1 }])],
    ['transition', (lease) => move(lease, { kind: 'resume' })],
    ['heartbeat', (lease) => renew(record.database, [lease])],
    ['release', (lease) => release(record.database, [lease])],
    ['block', (lease) => block(record.database, [{ lease, reason: 'X' }])],
  ];

  describe.each(writes)('EX-15: the %s', (_name, write) => {
    test('of an owner is written', async () => {
      const { lease, stageId } = await running();
      const before = await dump(record.database);
      await write(lease, stageId);
      expect(await dump(record.database)).not.toEqual(before);
    });

    test.each<[string, (lease: Lease) => Lease, boolean]>([
      ['another owner', (lease) => ({ ...lease, owner: 'worker-2' }), false],
      ['an older generation', (lease) => ({ ...lease, generation: lease.generation - 1 }), false],
      ['an expired lease', (lease) => lease, true],
    ])('of %s is rejected, and no row is touched', async (_kind, staleOf, expires) => {
      const { id, lease, stageId } = await running();
      if (expires) await expireLease(record.database, id);
      const before = await dump(record.database);
      await write(staleOf(lease), stageId);
      expect(await dump(record.database)).toEqual(before);
    });
  });

  test('EX-15: of a batch, only what is owned is written', async () => {
    const [mine, theirs] = [await running(), await running()];
    const stale = { ...theirs.lease, generation: theirs.lease.generation - 1 };
    const outcome = { kind: 'completed', result: {} } as const;
    const saved = await saveOutcomes(record.database, [
      { lease: mine.lease, stageId: mine.stageId, outcome },
      { lease: stale, stageId: theirs.stageId, outcome },
    ]);
    expect([...saved.keys()]).toEqual([mine.id]);
    expect((await readSnapshot(record.database, theirs.id))?.stages[0]?.status).toBe('running');
  });

  test('EX-16: a takeover raises the generation, says so, and keeps the first started_at', async () => {
    const { id, lease, stageId } = await running();
    const first = (await readSnapshot(record.database, id))?.stages[0]?.started_at;
    await expireLease(record.database, id);
    const second = await claim(id, 'worker-2');
    expect(second.generation).toBe(lease.generation + 1);
    await move(second, { kind: 'resume' });
    await start(second, stageId);
    const [stage] = (await readSnapshot(record.database, id))?.stages ?? [];
    expect(stage).toMatchObject({ id: stageId, status: 'running', attempts: 2, started_at: first });
    const { rows } = await sql<{ detail: unknown }>`
      SELECT detail FROM ${record.database.t.events} WHERE request_id = ${id}::uuid AND event = 'taken_over'`.execute(
      record.database.db,
    );
    expect(rows).toEqual([{ detail: { from: 'worker-1', lease_generation: 2 } }]);
    // Its heart still beats; nobody listens.
    expect((await renew(record.database, [lease])).lost).toEqual(new Set([id]));
  });

  describe('EX-14: a renewal', () => {
    /** Renews while another session keeps the row locked until the lease has run out. */
    async function renewAcrossExpiry<T>(id: string, attempt: () => Promise<T>): Promise<T> {
      return beside(async (client) => {
        await client.query(
          `UPDATE entity_deletion_requests SET lease_expires_at = clock_timestamp() + interval '1 s' WHERE id = $1`,
          [id],
        );
        await lock(client, id);
        const renewal = attempt();
        await until(somebodyWaits);
        await until(
          sql`SELECT lease_expires_at <= clock_timestamp() FROM ${record.database.t.requests} WHERE id = ${id}::uuid`,
        );
        await client.query('COMMIT');
        return renewal;
      });
    }

    const isAlive = async (id: string): Promise<boolean> => {
      const snapshot = await readSnapshot(record.database, id);
      return (snapshot?.request.lease_expires_at ?? 0) > (snapshot?.now ?? 0);
    };

    test('compares after it has the lock: a lease that ran out while it waited is not renewed', async () => {
      const { id, lease } = await running();
      const renewal = await renewAcrossExpiry(id, () => renew(record.database.aside, [lease]));
      expect(renewal).toEqual({ renewed: new Set(), lost: new Set([id]) });
      expect(await isAlive(id)).toBe(false);
    });

    test('that compared before its wait would renew it (what this test is able to see)', async () => {
      const { id, lease } = await running();
      const { db, t } = record.database.aside;
      await renewAcrossExpiry(id, () =>
        sql`UPDATE ${t.requests} SET lease_expires_at = clock_timestamp() + interval '60 s'
             WHERE id = ${id}::uuid AND lease_owner = ${lease.owner}::text
               AND lease_expires_at > clock_timestamp()`.execute(db),
      );
      expect(await isAlive(id)).toBe(true);
    });

    test('gives up after two seconds, renews the rest of its batch, and leaves no setting behind', async () => {
      const [locked, free] = [await running(), await running()];
      await beside(async (client) => {
        await lock(client, locked.id);
        const renewal = await renew(record.database.aside, [locked.lease, free.lease]);
        expect(renewal).toEqual({ renewed: new Set([free.id]), lost: new Set() });
        await client.query('ROLLBACK');
      });
      const { rows } = await sql`SHOW lock_timeout`.execute(record.database.aside.db);
      expect(rows).toEqual([{ lock_timeout: '0' }]);
      expect((await renew(record.database.aside, [locked.lease])).renewed).toEqual(new Set([locked.id]));
    });

    test('that waits for one row keeps no other from being saved', async () => {
      const [saved, locked] = [await running(), await running()];
      await beside(async (client) => {
        await lock(client, locked.id);
        // On a machine that is slow the renewal may have given up before the save is back: then once more.
        let stillWaits = false;
        while (!stillWaits) {
          let isOver = false;
          const renewal = renew(record.database.aside, [saved.lease, locked.lease]).finally(() => {
            isOver = true;
          });
          while (!isOver && !(await holds(somebodyWaits)));
          const progress = [{ lease: saved.lease, stageId: saved.stageId, cursor: 1 }];
          expect((await saveProgress(record.database, progress)).get(saved.id)).toBe('saved');
          stillWaits = await holds(somebodyWaits);
          await renewal;
        }
        await client.query('ROLLBACK');
      });
    });

    test('waits for a save of its own request and does not stop it', async () => {
      const { id, lease, stageId } = await running();
      let renewal: Promise<unknown> = Promise.resolve();
      await record.database.transaction(async (tx) => {
        const saved = await saveOutcomes(tx, [{ lease, stageId, outcome: { kind: 'completed', result: {} } }]);
        expect(saved.size).toBe(1);
        renewal = renew(record.database.aside, [lease]);
        await until(somebodyWaits);
      });
      expect(await renewal).toEqual({ renewed: new Set([id]), lost: new Set() });
      expect((await readSnapshot(record.database, id))?.stages[0]?.status).toBe('completed');
    });
  });
});
