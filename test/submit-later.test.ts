/** Requests of applications, which cannot count (WF-1), and the standing approvals that let them go on (WF-8). */
import { PGlite } from '@electric-sql/pglite';
import { CamelCasePlugin, Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { Client } from '../src/client/client.js';
import { defineConfig } from '../src/config/define-config.js';
import { verifyReceipts } from '../src/evidence/verify-receipts.js';
import { parseKeyRing } from '../src/keys/key-ring.js';
import { silentLog } from '../src/observe/log.js';
import type { Lease } from '../src/requests/request.js';
import { savePreparations } from '../src/requests/save-preparations.js';
import { claimDue } from '../src/requests/claim.js';
import { openPostgres } from '../src/storage/postgres/postgres-database.js';
import type { Database } from '../src/storage/database.js';
import { ensureRoles } from '../src/storage/migrations/roles.js';
import { migrations } from '../src/storage/migrations/migrations.js';
import { codeOf, openOffice, visits, type Desk, type Office } from './support/erasure-office.js';
import { startPostgresProxy } from './support/postgres-proxy.js';
import { describeWithPostgres } from './support/postgres.js';
import { expireLease, makeDue } from './support/record.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const later = { requestedBy: 'shop', count: 'later' } as const;

describeWithPostgres('a request that an application submits', () => {
  let office: Office;
  let app: Client;
  let worker: Desk;
  let pool: pg.Pool;
  beforeAll(async () => {
    office = await openOffice();
    await office.query('INSERT INTO visit SELECT 100 + i, 100 + i FROM generate_series(1, 20) i');
    app = application();
    worker = office.desk({ targets: { main: visits(office.url) } });
    pool = new pg.Pool({ connectionString: office.ownUrl });
    await pool.query('CREATE TABLE account (id int)');
  });
  afterAll(async () => {
    await pool?.end();
    await app?.close();
    await office?.close();
  });

  /** Without targets, with the client's key file. */
  function application(database: Database = openPostgres({ url: office.ownUrl })): Client {
    const config = defineConfig({
      database: office.ownUrl,
      subject: { key: 'customerId', identifiers: { customerId: { opaque: true } } },
      targets: {},
    });
    return new Client(config, database, parseKeyRing(office.keys.client, 'client'), silentLog);
  }
  const subject = (customer: number) => ({ customerId: String(customer) });
  const stateOf = async (id: string) => (await worker.client.requests.show(id)).request;
  /** In one loop: of two, each may claim a part of what is due. */
  const workOnce = (desk: Desk = worker, executorId = 'worker-1') =>
    desk.client.requests.work({ executorId, signal: new AbortController().signal, once: true, concurrency: 1 });
  const exists = async (id: string) =>
    (await office.own('SELECT FROM entity_deletion_requests WHERE id = $1', [id])).length === 1;

  /** In a transaction of node-postgres with a change of the application's own; `end` commits or not. */
  async function inPg<T>(end: 'COMMIT' | 'ROLLBACK', work: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
    const tx = await pool.connect();
    try {
      await tx.query('BEGIN');
      await tx.query('INSERT INTO account VALUES (1)');
      const result = await work(tx);
      await tx.query(end);
      return result;
    } finally {
      tx.release();
    }
  }

  test('WF-1: it is counted by a worker, approved, and done', async () => {
    const recorded = await app.submit(subject(101), later);
    expect(recorded).toMatchObject({ status: 'submitted', inventory_digest: null, requested_by: 'shop' });
    expect(await app.get(recorded.id)).toMatchObject({ status: 'pending', targets: {} });
    expect(await codeOf(worker.client.revise(recorded.id, 'ben'))).toBe('WRONG_STATUS');
    await workOnce();
    const { inventory_digest, status, lease_owner } = await stateOf(recorded.id);
    expect({ status, lease_owner }).toEqual({ status: 'submitted', lease_owner: null });
    expect(inventory_digest).toMatch(/^[0-9a-f]{64}$/);
    await worker.approve(recorded.id);
    expect(await worker.run(recorded.id)).toEqual({ kind: 'ended', status: 'completed' });
    expect(await office.query('SELECT FROM visit WHERE customer_id = 101')).toEqual([]);
  });

  test('WF-1: with node-postgres it exists exactly if the transaction commits', async () => {
    const gone = await inPg('ROLLBACK', (tx) => app.submit(subject(102), { ...later, tx }));
    expect(await exists(gone.id)).toBe(false);
    const there = await inPg('COMMIT', (tx) => app.submit(subject(102), { ...later, tx }));
    expect(await exists(there.id)).toBe(true);
    const sealed = await office.own('SELECT part FROM deletion_sealed_identifiers WHERE request_id = $1', [there.id]);
    expect(sealed).toHaveLength(1);
  });

  test('WF-1: with Kysely, whatever plugins it has', async () => {
    const kysely = new Kysely<Record<string, never>>({
      dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: office.ownUrl }) }),
      plugins: [new CamelCasePlugin()],
    });
    try {
      let id = '';
      const rolledBack = kysely.transaction().execute(async (tx) => {
        ({ id } = await app.submit(subject(103), { ...later, tx }));
        throw new Error('rolled back');
      });
      await expect(rolledBack).rejects.toThrow('rolled back');
      expect(await exists(id)).toBe(false);
      const { id: kept } = await kysely.transaction().execute((tx) => app.submit(subject(103), { ...later, tx }));
      expect(await exists(kept)).toBe(true);
      // @ts-expect-error -- a plain handle is no transaction
      expect(await codeOf(app.submit(subject(104), { ...later, tx: kysely }))).toBe('TRANSACTION_REQUIRED');
    } finally {
      await kysely.destroy();
    }
  });

  test('WF-1: with PGlite', async () => {
    const pglite = await PGlite.create();
    try {
      for (const { text } of migrations()) {
        await pglite.exec(`CREATE SCHEMA IF NOT EXISTS expunge; ${text.replaceAll('{{schema}}', 'expunge')}`);
      }
      const count = async () => (await pglite.query('SELECT FROM expunge.entity_deletion_requests')).rows.length;
      await pglite.transaction(async (tx) => {
        await app.submit(subject(104), { ...later, tx });
        await tx.rollback();
      });
      expect(await count()).toBe(0);
      const first = await pglite.transaction((tx) => app.submit(subject(104), { ...later, tx, idempotencyKey: 'k' }));
      const again = await pglite.transaction((tx) => app.submit(subject(104), { ...later, tx, idempotencyKey: 'k' }));
      expect(again).toEqual(first);
      expect(await count()).toBe(1);
      // The same function decides where there are no roles: with one signature nothing, with two what they cover.
      const standing = '01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f';
      const target = { name: 'main', plan_digest: 'p', places: [{ place: 'visit', action: 'delete', count: 3 }] };
      await pglite.query(
        `INSERT INTO expunge.entity_deletion_inventories (request_id, revision, inventory, inventory_digest)
         VALUES ($1, 1, $2, repeat('a', 64))`,
        [first.id, JSON.stringify({ targets: [target], bounds: { drift: 1 } })],
      );
      await pglite.exec(`UPDATE expunge.entity_deletion_requests SET inventory_digest = repeat('a', 64);
        INSERT INTO expunge.deletion_standing_approvals (id, workflow, workflow_version, plans, rows_per_request, drift,
               requests_per_day, expires_at, proposed_by)
        VALUES ('${standing}', 'erasure', 1, '{"main": {"plan_digest": "p", "places": {"visit": "delete"}}}', 3, 1, 1,
                clock_timestamp() + interval '1 h', 'zoe')`);
      const signs = (name: string) =>
        pglite.query(
          `INSERT INTO expunge.deletion_standing_approval_decisions (id, standing_approval_id, decision, decided_by)
           VALUES (gen_random_uuid(), $1, 'approve', $2)`,
          [standing, name],
        );
      const applied = async () =>
        (await pglite.query('SELECT * FROM expunge.apply_standing_approvals(ARRAY[$1::uuid])', [first.id])).rows;
      await signs('zoe');
      expect(await applied()).toEqual([]);
      await signs('yan');
      expect(await applied()).toEqual([{ request_id: first.id, standing_approval_id: standing }]);
      // @ts-expect-error -- the database is no transaction
      expect(await codeOf(app.submit(subject(105), { ...later, tx: pglite }))).toBe('TRANSACTION_REQUIRED');
    } finally {
      await pglite.close();
    }
  });

  test('WF-1: a pool, and a connection without BEGIN, are refused', async () => {
    // @ts-expect-error -- a pool is no transaction
    expect(await codeOf(app.submit(subject(105), { ...later, tx: pool }))).toBe('TRANSACTION_REQUIRED');
    const connection = await pool.connect();
    expect(await codeOf(app.submit(subject(105), { ...later, tx: connection }))).toBe('TRANSACTION_REQUIRED');
    connection.release();
  });

  test('WF-1: a refusal leaves the transaction as good as it was', async () => {
    const first = await app.submit(subject(106), { ...later, idempotencyKey: 'order-6' });
    await inPg('COMMIT', async (tx) => {
      expect(await codeOf(app.submit(subject(106), { ...later, tx }))).toBe('LIVE_REQUEST_EXISTS');
      expect(await app.submit(subject(106), { ...later, tx, idempotencyKey: 'order-6' })).toEqual(first);
      const other = app.submit(subject(107), { ...later, tx, idempotencyKey: 'order-6' });
      expect(await codeOf(other)).toBe('IDEMPOTENCY_CONFLICT');
      await tx.query('INSERT INTO account VALUES (6)');
    });
    expect((await pool.query('SELECT FROM account WHERE id = 6')).rowCount).toBe(1);
  });

  test('WF-1: a worker that died while it counted holds nothing up, and its late save is refused', async () => {
    const { id } = await app.submit(subject(108), later);
    const name = { workflow: 'erasure', version: 1 };
    const claim = { owner: 'dead', limit: 500, which: 'count', workflows: [name], except: [] } as const;
    const [dead] = (await claimDue(worker.database, claim)).filter(({ request }) => request.id === id);
    expect(dead).toBeDefined();
    await workOnce();
    expect((await stateOf(id)).inventory_digest).toBeNull();
    const late = {
      lease: dead?.lease as Lease,
      preparation: { kind: 'failed', error: 'LATE', retryable: false },
    } as const;
    await expireLease(worker.database, id);
    await Promise.all([workOnce(worker, 'worker-1'), workOnce(worker, 'worker-2')]);
    const { inventories, request } = await worker.client.requests.show(id);
    expect(inventories).toHaveLength(1);
    expect(request.inventory_digest).not.toBeNull();
    expect(await savePreparations(worker.database, [late])).toEqual(new Map());
    expect(await stateOf(id)).toEqual(request);
  });

  test('WF-1: one count of each target for all requests of a claim', async () => {
    const ids = [];
    for (const customer of [109, 110, 111]) ids.push((await app.submit(subject(customer), later)).id);
    const proxied: string[] = [];
    const declaration = visits(office.url);
    const counting = {
      ...declaration,
      open: (name: string) => {
        const target = declaration.open(name);
        return new Proxy(target, {
          get: (it, key) => {
            const value: unknown = Reflect.get(it, key);
            if (typeof value !== 'function') return value;
            return (...args: unknown[]) => {
              proxied.push(String(key));
              return Reflect.apply(value, it, args) as unknown;
            };
          },
        });
      },
    };
    await workOnce(office.desk({ targets: { main: counting } }));
    for (const id of ids) expect((await stateOf(id)).inventory_digest).not.toBeNull();
    expect(proxied.filter((call) => call === 'count')).toHaveLength(1);
  });

  test('WF-1: a target that is down postpones, with the reason', async () => {
    const proxy = await startPostgresProxy(office.url);
    const desk = office.desk({ targets: { main: visits(proxy.url) } });
    const { id } = await app.submit(subject(112), later);
    proxy.set('down');
    await workOnce(desk);
    const waiting = await stateOf(id);
    expect(waiting).toMatchObject({ status: 'submitted', inventory_digest: null, lease_owner: null });
    expect(waiting.last_error).toMatch(/^TARGET_UNAVAILABLE: /);
    expect(waiting.next_attempt_at).not.toBeNull();
    proxy.set('none');
    await makeDue(desk.database, id);
    await workOnce(desk);
    expect(await stateOf(id)).toMatchObject({ last_error: null, next_attempt_at: null });
    expect((await stateOf(id)).inventory_digest).not.toBeNull();
    await proxy.close();
  });

  test('WF-9: what is over the bounds blocks its request alone, and is counted again when it is unblocked', async () => {
    await office.query('INSERT INTO visit SELECT 200 + i, 113 FROM generate_series(1, 5) i');
    const over = await app.submit(subject(113), later);
    const fine = await app.submit(subject(114), later);
    await workOnce(office.desk({ targets: { main: visits(office.url) }, bounds: { rows: 3 } }));
    expect((await stateOf(over.id)).blocked_reason).toMatch(/^BOUNDS_EXCEEDED: /);
    expect(await stateOf(over.id)).toMatchObject({ status: 'blocked', inventory_digest: null });
    expect((await stateOf(fine.id)).inventory_digest).not.toBeNull();
    await worker.client.requests.unblock({ requestId: over.id, by: 'ben', reason: 'raised' });
    expect(await worker.run(over.id)).toMatchObject({ kind: 'waiting', status: 'submitted', why: null });
  });

  test('an order holds for one that is not counted', async () => {
    const { id } = await app.submit(subject(115), later);
    await worker.client.requests.hold({ requestId: id, by: 'ben', reason: 'audit', until: null });
    await workOnce();
    expect(await stateOf(id)).toMatchObject({ status: 'held', inventory_digest: null });
    await worker.client.requests.cancel({ requestId: id, by: 'ben', reason: 'mistake' });
    expect((await stateOf(id)).status).toBe('cancelled');
    const left = await office.own('SELECT FROM deletion_sealed_identifiers WHERE request_id = $1', [id]);
    expect(left).toEqual([]);
  });

  test('the claim is served by its partial index', async () => {
    const explained = await inPg('ROLLBACK', async (tx) => {
      await tx.query('SET LOCAL enable_seqscan = off');
      return tx.query<{ 'QUERY PLAN': string }>(`EXPLAIN SELECT id FROM expunge.entity_deletion_requests r
       WHERE r.status = 'submitted' AND r.inventory_digest IS NULL
         AND coalesce(r.next_attempt_at, r.created_at) <= (SELECT clock_timestamp())
       ORDER BY coalesce(r.next_attempt_at, r.created_at), r.id LIMIT 10 FOR UPDATE SKIP LOCKED`);
    });
    expect(explained.rows.map((row) => row['QUERY PLAN']).join('\n')).toContain('uncounted_requests');
  });

  test('WF-9: a worker blocks a subject that only its own configuration protects', async () => {
    const { id } = await app.submit(subject(116), later);
    await workOnce(office.desk({ targets: { main: visits(office.url) }, protected: { customerId: ['116'] } }));
    expect((await stateOf(id)).blocked_reason).toMatch(/^PROTECTED_SUBJECT: /);
  });

  /** An active policy for the worker's plans, by zoe and yan. */
  async function policy(rows = 5, perDay = 100): Promise<string> {
    const { standingApprovals } = worker.client;
    const expiresAt = new Date(Date.now() + 3_600_000);
    const { id } = await standingApprovals.propose({
      proposedBy: 'zoe',
      rowsPerRequest: rows,
      requestsPerDay: perDay,
      expiresAt,
    });
    await standingApprovals.approve(id, 'zoe');
    expect(await codeOf(standingApprovals.approve(id, ' ZOE '))).toBe('ALREADY_APPROVED_BY');
    await standingApprovals.approve(id, 'yan');
    return id;
  }
  const revoke = (id: string) => worker.client.standingApprovals.revoke(id, 'zoe');
  /** Submits, has a worker without a policy's exceptions count, and tells where the request stands. */
  async function counted(customer: number, requestedBy = 'shop', desk = worker): Promise<string> {
    const { id } = await app.submit(subject(customer), { ...later, requestedBy });
    await desk.run(id);
    return id;
  }

  test('WF-8: a standing approval approves what it covers, and the receipts name it', async () => {
    const standing = await policy();
    const { id } = await app.submit(subject(117), later);
    await workOnce();
    const { request, approvals } = await worker.client.requests.show(id);
    expect(request.blocked_reason).toBeNull();
    expect(approvals.map(({ approved_by }) => approved_by)).toEqual([`standing-approval:${standing}/1`]);
    expect(request.status).toBe('completed');
    const exported = await worker.client.exportReceipts(id);
    expect(await verifyReceipts(exported, office.keys.verification)).toMatchObject({ verified: true });
    expect(await worker.client.standingApprovals.list()).toMatchObject([
      { id: standing, approved: 1, state: 'active' },
    ]);
    // A person under whose name it could pass is refused.
    const person = await codeOf(worker.approve(await counted(118, 'yan'), `standing-approval:${standing}/1`));
    expect(person).toBe('INVALID_OPERATOR');
    await revoke(standing);
  });

  test('WF-8: what is outside stops alone, and awaits a person', async () => {
    await office.query('INSERT INTO visit SELECT 300 + i, 119 FROM generate_series(1, 5) i');
    const standing = await policy(3, 1);
    const other = office.desk({ targets: { main: visits(office.url, 'session') } });
    // Over its rows; requested by one of its signers, in other letters; another plan.
    for (const id of [await counted(119), await counted(120, 'YAN'), await counted(8, 'shop', other)]) {
      expect(await stateOf(id)).toMatchObject({ status: 'submitted' });
      expect((await stateOf(id)).inventory_digest).not.toBeNull();
    }
    // One a day: of two in one claim it is the older one.
    const first = await app.submit(subject(1), later);
    const second = await app.submit(subject(2), later);
    await workOnce();
    expect((await stateOf(first.id)).status).toBe('completed');
    expect((await stateOf(second.id)).status).toBe('submitted');
    await revoke(standing);
  });

  test('WF-8: a policy that is revoked, expired, or approved by one person alone approves nothing', async () => {
    await revoke(await policy());
    const { standingApprovals } = worker.client;
    const terms = { proposedBy: 'zoe', rowsPerRequest: 100, requestsPerDay: 100 };
    const alone = await standingApprovals.propose({ ...terms, expiresAt: new Date(Date.now() + 3_600_000) });
    await standingApprovals.approve(alone.id, 'zoe');
    await office.own(
      `WITH old AS (INSERT INTO deletion_standing_approvals (id, workflow, workflow_version, plans, rows_per_request, drift,
                      requests_per_day, proposed_by, proposed_at, expires_at)
         SELECT gen_random_uuid(), workflow, workflow_version, plans, 100, drift, 100, 'zoe', now() - interval '2 h', now() - interval '1 s'
           FROM deletion_standing_approvals WHERE id = $1 RETURNING id)
       INSERT INTO deletion_standing_approval_decisions (id, standing_approval_id, decision, decided_by)
       SELECT gen_random_uuid(), id, 'approve', who FROM old, unnest(ARRAY['zoe', 'yan']) who`,
      [alone.id],
    );
    const id = await counted(3);
    expect((await stateOf(id)).status).toBe('submitted');
    expect((await standingApprovals.list()).map(({ state }) => state).sort()).not.toContain('active');
    await revoke(alone.id);
    expect(await codeOf(standingApprovals.approve(alone.id, 'yan'))).toBe('WRONG_STATUS');
    expect(await codeOf(standingApprovals.propose({ ...terms, expiresAt: new Date(0) }))).toBe('INVALID_ORDER');
  });

  test('WF-8: neither the client nor the worker can approve by itself', async () => {
    expect(await ensureRoles(worker.database)).toMatchObject({ owed: [] });
    const standing = await policy(0);
    const id = await counted(4);
    const { inventory_digest } = await stateOf(id);
    const forged = `INSERT INTO entity_deletion_approvals (id, request_id, inventory_digest, approved_by, standing_approval_id)
       VALUES (gen_random_uuid(), '${id}', '${inventory_digest}', 'standing-approval:${standing}/1', '${standing}')`;
    const signed = `INSERT INTO deletion_standing_approval_decisions (id, standing_approval_id, decision, decided_by)
       VALUES (gen_random_uuid(), '${standing}', 'approve', 'xia')`;
    const proposed = 'INSERT INTO deletion_standing_approvals DEFAULT VALUES';
    const changed = 'UPDATE deletion_standing_approvals SET rows_per_request = 100';
    const apply = `SELECT * FROM apply_standing_approvals(ARRAY['${id}'::uuid])`;
    for (const role of ['expunge_client', 'expunge_worker']) {
      for (const statement of [forged, signed, proposed, changed]) await refused(role, statement);
    }
    await refused('expunge_client', apply);
    await refused('expunge_guard', apply);
    await refused('expunge_approver', forged);
    await refused('expunge_approver', changed);
    expect(await asRole('expunge_worker', apply)).toEqual([]);
    await expect(office.own(changed)).rejects.toMatchObject({ code: '23001' });
    await revoke(standing);
    const covering = await policy(100);
    expect(await asRole('expunge_worker', apply)).toEqual([{ request_id: id, standing_approval_id: covering }]);
    expect((await stateOf(id)).status).toBe('approved');
    await revoke(covering);
  });

  async function asRole(role: string, statement: string): Promise<unknown[]> {
    const url = new URL(office.ownUrl);
    url.username = role;
    const client = new pg.Client({ connectionString: url.href });
    await client.connect();
    return client
      .query(statement)
      .then(({ rows }) => rows as unknown[])
      .finally(() => client.end());
  }
  const refused = (role: string, statement: string) =>
    expect(asRole(role, statement), `${role}: ${statement}`).rejects.toMatchObject({ code: '42501' });
});
