import { randomBytes, randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type EmbeddedServer, startEmbeddedPostgres } from '../../../test/support/embedded-postgres.js';
import { createTestDatabase, describeWithPostgres, type TestDatabase } from '../../../test/support/postgres.js';
import type { Database } from '../database.js';
import { openPostgres } from '../postgres/postgres-database.js';
import { migrate } from './migrate.js';
import { ensureRoles } from './roles.js';

const roles = ['expunge_guard', 'expunge_client', 'expunge_worker', 'expunge_approver'];

/** Runs `work` as `user` on the database at `url`. */
async function as<T>(
  url: string,
  user: string,
  work: (database: Database) => Promise<T>,
  schema = 'expunge',
  onStatement?: (text: string) => void,
): Promise<T> {
  const address = new URL(url);
  address.username = user;
  const database = openPostgres({ url: address.href, schema, ...(onStatement && { onStatement }) });
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

const run = (database: Database, text: string): Promise<{ rows: unknown[] }> => sql.raw(text).execute(database.db);

/** The questions that operators ask, unqualified (executor.md). */
function operatorQuestions(request: string): readonly string[] {
  return [
    `SELECT target, status, lease_owner, lease_generation, lease_expires_at,
            heartbeat_at, retry_count, next_attempt_at, last_error, completed_at
     FROM entity_deletion_requests WHERE id = '${request}'`,
    `SELECT id, stage, target_community_id, status, is_current,
            started_at, finished_at, metadata_json, last_error
     FROM entity_deletion_stage_history WHERE request_id = '${request}' ORDER BY started_at NULLS LAST, id`,
    `SELECT approved_by, approved_at, inventory_digest
     FROM entity_deletion_approvals WHERE request_id = '${request}' ORDER BY approved_at, id`,
  ];
}

async function plantRequest({ db, t }: Database): Promise<string> {
  const id = randomUUID();
  const digest = 'a'.repeat(64);
  await sql`INSERT INTO ${t.requests} (id, workflow, workflow_version, target, status, requested_by)
            VALUES (${id}, 'user-deletion', 1, ${`demo:${id}`}, 'running', 'a')`.execute(db);
  await sql`INSERT INTO ${t.inventories} (request_id, revision, inventory, inventory_digest)
            VALUES (${id}, 1, '{}', ${digest})`.execute(db);
  await sql`INSERT INTO ${t.approvals} (id, request_id, inventory_digest, approved_by)
            VALUES (${randomUUID()}, ${id}, ${digest}, 'b')`.execute(db);
  await sql`INSERT INTO ${t.stages} (id, request_id, stage, status, is_current, metadata_json)
            VALUES (${randomUUID()}, ${id}, 'any', 'pending', true, '{}')`.execute(db);
  return id;
}

describeWithPostgres('the roles of a database', () => {
  let own: TestDatabase;
  let other: TestDatabase;
  let request: string;
  const superuser = (): string => new URL(own.url).username;
  beforeAll(async () => {
    [own, other] = await Promise.all([createTestDatabase(), createTestDatabase()]);
    request = await as(own.url, superuser(), async (database) => {
      await migrate(database);
      expect(await ensureRoles(database)).toMatchObject({ owed: [] });
      return plantRequest(database);
    });
  });
  afterAll(async () => {
    await Promise.all([own?.drop(), other?.drop()]);
  });

  test.each(['expunge_client', 'expunge_worker'])("answer operators' own SQL, unqualified, as %s", async (role) => {
    await as(own.url, role, async (database) => {
      for (const question of operatorQuestions(request)) {
        expect((await run(database, question)).rows).toHaveLength(1);
      }
    });
  });

  test('find the tables in another schema of another database', async () => {
    const id = await as(
      other.url,
      superuser(),
      async (database) => {
        await migrate(database);
        expect(await ensureRoles(database)).toMatchObject({ owed: [] });
        return plantRequest(database);
      },
      `it's "theirs"`,
    );
    await as(other.url, 'expunge_client', async (database) => {
      for (const question of operatorQuestions(id)) {
        expect((await run(database, question)).rows).toHaveLength(1);
      }
    });
    await as(own.url, 'expunge_client', async (database) => {
      expect((await run(database, 'SHOW search_path')).rows).toEqual([{ search_path: 'expunge, public' }]);
    });
  });

  test('are left alone when nothing is missing, also by a role that may change nothing', async () => {
    const statements: string[] = [];
    for (const user of [superuser(), 'expunge_guard']) {
      const report = await as(own.url, user, ensureRoles, 'expunge', (text) => void statements.push(text));
      expect(report).toEqual({ created: [], owed: [] });
    }
    expect(statements.filter((text) => !/^\s*SELECT/.test(text))).toEqual([]);
  });

  test('keep what an administrator added to their search path', async () => {
    await as(own.url, superuser(), async (database) => {
      const { rows } = await sql<{ name: string }>`SELECT current_database() AS name`.execute(database.db);
      const path = `ALTER ROLE expunge_guard IN DATABASE "${rows[0]?.name}" SET search_path = expunge, extensions`;
      await run(database, path);
      expect(await ensureRoles(database)).toEqual({ created: [], owed: [] });
      await as(own.url, 'expunge_guard', async (guard) => {
        expect((await run(guard, 'SHOW search_path')).rows).toEqual([{ search_path: 'expunge, extensions' }]);
      });
    });
  });

  test.each([
    ['expunge_guard', 'SELECT state FROM deletion_tombstones'],
    ['expunge_client', 'SELECT request_id FROM deletion_sealed_identifiers'],
    ['expunge_client', 'DELETE FROM deletion_sealed_identifiers WHERE request_id IS NULL'],
    ['expunge_client', "INSERT INTO deletion_events (event) VALUES ('submitted')"],
    ['expunge_client', 'SELECT id FROM entity_deletion_requests FOR UPDATE'],
    ['expunge_worker', 'SELECT sealed FROM deletion_sealed_identifiers'],
    ['expunge_worker', "INSERT INTO deletion_events (event) VALUES ('claimed')"],
    ['expunge_worker', 'SELECT id FROM entity_deletion_requests FOR UPDATE'],
  ])('let %s do its work: %s', async (role, statement) => {
    await as(own.url, role, (database) => run(database, statement));
  });

  test.each([
    ['expunge_guard', 'SELECT id FROM entity_deletion_requests'],
    ['expunge_guard', "UPDATE deletion_tombstones SET state = 'live'"],
    ['expunge_client', 'SELECT sealed FROM deletion_sealed_identifiers'],
    ['expunge_client', "UPDATE deletion_tombstones SET state = 'live'"],
    ['expunge_client', 'DELETE FROM entity_deletion_requests'],
    ['expunge_client', 'INSERT INTO deletion_receipts DEFAULT VALUES'],
    ['expunge_worker', 'INSERT INTO entity_deletion_approvals DEFAULT VALUES'],
    ['expunge_worker', 'INSERT INTO entity_deletion_requests DEFAULT VALUES'],
    ['expunge_worker', 'DELETE FROM deletion_receipts'],
    ['expunge_worker', 'TRUNCATE deletion_events'],
    ['expunge_worker', 'CREATE TABLE expunge.mine ()'],
    ['expunge_worker', 'UPDATE schema_migrations SET checksum = name'],
  ])('refuse %s what is not its work: %s', async (role, statement) => {
    await as(own.url, role, async (database) => {
      await expect(run(database, statement)).rejects.toMatchObject({ code: '42501' });
    });
  });
});

/** Roles belong to the whole server: where they are missing can only be tested on a server of one's own. */
describe('on a server without the roles', () => {
  let server: EmbeddedServer;
  beforeAll(async () => {
    server = await startEmbeddedPostgres();
  }, 120_000);
  afterAll(() => server?.stop());

  /** Without databases and roles of earlier tests. */
  beforeEach(async () => {
    await as(server.url, 'postgres', async (database) => {
      const { rows } = await sql<{ drop: string }>`
        SELECT format('DROP DATABASE %I WITH (FORCE)', datname) AS drop FROM pg_database WHERE datname ~ '^test_'
        UNION ALL
        SELECT format('DROP ROLE %I', rolname) FROM pg_roles WHERE rolname ~ '^(expunge|owner|reader)'`.execute(
        database.db,
      );
      for (const { drop } of rows) await run(database, drop);
    });
  });

  /** A new database whose owner has these attributes, and is no superuser. */
  async function createOwned(attributes = ''): Promise<{ url: string; owner: string }> {
    const suffix = randomBytes(4).toString('hex');
    const owner = `owner_${suffix}`;
    await as(server.url, 'postgres', async (database) => {
      await run(database, `CREATE ROLE ${owner} LOGIN NOSUPERUSER ${attributes}`);
      await run(database, `CREATE DATABASE test_${suffix} OWNER ${owner} TEMPLATE template0`);
    });
    const url = new URL(server.url);
    url.pathname = `test_${suffix}`;
    return { url: url.href, owner };
  }

  async function setUp(database: Database): Promise<Awaited<ReturnType<typeof ensureRoles>>> {
    await migrate(database);
    return ensureRoles(database);
  }

  test('they are created, with the rights and the path, and only the first time', async () => {
    const { url } = await createOwned();
    expect(await as(url, 'postgres', setUp)).toEqual({ created: roles, owed: [] });
    expect(await as(url, 'postgres', setUp)).toEqual({ created: [], owed: [] });
    await as(url, 'expunge_worker', (database) => run(database, 'SELECT FROM entity_deletion_requests'));
  });

  test('migrations of several databases at once create each of them once, and none fails', async () => {
    const databases = await Promise.all(Array.from({ length: 5 }, () => createOwned()));
    const twice = [...databases, ...databases];
    const reports = await Promise.all(twice.map(({ url }) => as(url, 'postgres', setUp)));
    expect(reports.flatMap(({ owed }) => owed)).toEqual([]);
    expect(reports.flatMap(({ created }) => created).sort()).toEqual([...roles].sort());
    for (const { url } of databases) {
      await as(url, 'expunge_client', (database) => run(database, 'SELECT FROM entity_deletion_requests'));
    }
  });

  test('an owner that may not create roles is given the SQL, which does it', async () => {
    const { url, owner } = await createOwned();
    const { created, owed } = await as(url, owner, setUp);
    expect(created).toEqual([]);
    expect(owed.filter((statement) => statement.startsWith('CREATE ROLE'))).toEqual(
      roles.map((role) => `CREATE ROLE ${role} LOGIN`),
    );
    await as(url, 'postgres', (database) => run(database, owed.map((statement) => `${statement};`).join('\n')));
    expect(await as(url, owner, setUp)).toEqual({ created: [], owed: [] });
    await as(url, 'expunge_worker', (database) => run(database, 'SELECT FROM entity_deletion_requests'));
  });

  test('an owner that may not change roles grants what it can, and is given the rest', async () => {
    const { url, owner } = await createOwned();
    await as(url, 'postgres', async (database) => {
      for (const role of roles) await run(database, `CREATE ROLE ${role} LOGIN`);
    });
    const { owed } = await as(url, owner, setUp);
    const name = new URL(url).pathname.slice(1);
    expect(owed).toEqual(
      roles.map((role) => `ALTER ROLE ${role} IN DATABASE "${name}" SET search_path = "expunge", public`),
    );
    await as(url, 'expunge_client', (database) => run(database, 'SELECT FROM expunge.entity_deletion_requests'));
  });

  test('an owner that may create roles does all of it', async () => {
    const { url, owner } = await createOwned('CREATEROLE');
    expect(await as(url, owner, setUp)).toEqual({ created: roles, owed: [] });
    await as(url, 'expunge_client', (database) => run(database, 'SELECT FROM entity_deletion_requests'));
  });

  test('a database that lets nobody in lets them in', async () => {
    const { url } = await createOwned();
    const name = new URL(url).pathname.slice(1);
    await as(url, 'postgres', async (database) => {
      await run(database, `REVOKE CONNECT ON DATABASE ${name} FROM PUBLIC`);
      expect(await setUp(database)).toMatchObject({ owed: [] });
    });
    await as(url, 'expunge_guard', (database) => run(database, 'SELECT FROM deletion_tombstones'));
  });

  test('a grant that the server only warned about is not taken for done', async () => {
    const { url } = await createOwned();
    await as(url, 'postgres', async (database) => {
      await migrate(database);
      await run(database, 'CREATE ROLE reader LOGIN');
      for (const role of roles) await run(database, `CREATE ROLE ${role} LOGIN`);
      await run(database, 'GRANT USAGE ON SCHEMA expunge TO reader');
      await run(database, 'GRANT SELECT ON ALL TABLES IN SCHEMA expunge TO reader');
    });
    const { owed } = await as(url, 'reader', ensureRoles);
    expect(owed).toContain('GRANT SELECT ON "expunge".deletion_tombstones TO expunge_guard');
    expect(owed).toContain('GRANT USAGE ON SCHEMA "expunge" TO expunge_worker');
  });
});
