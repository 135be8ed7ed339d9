import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithPostgres } from '../../../test/support/postgres.js';
import { startPostgresProxy } from '../../../test/support/postgres-proxy.js';
import {
  countOf,
  createTargetDatabase,
  eraseAll,
  failureOf,
  quiet,
  subjectsById,
  type TargetDatabase,
} from '../../../test/support/postgres-target.js';
import { TargetBlockedError, TargetDeclarationError, TargetUnavailableError } from '../target-error.js';

const byId = { key: { id: 'id' }, action: 'delete' } as const;

describeWithPostgres('what a PostgreSQL target does besides', () => {
  let database: TargetDatabase;
  beforeAll(async () => {
    database = await createTargetDatabase();
  });
  afterAll(() => database.drop());

  it('WF-13: revokes sessions and what hangs on them, and nothing else, and erases what signed in since', async () => {
    await database.query(`
      CREATE TABLE account (id int PRIMARY KEY);
      CREATE TABLE session (no int PRIMARY KEY, id int REFERENCES account);
      CREATE TABLE session_event (session int REFERENCES session, what text);
      INSERT INTO account VALUES (1), (2); INSERT INTO session SELECT n, 1 + n % 2 FROM generate_series(1, 10) n;
      INSERT INTO session_event SELECT 1 + n % 10, 'x' FROM generate_series(1, 40) n`);
    const target = database.open({
      tables: {
        account: byId,
        session: { ...byId, revoke: true },
        session_event: { through: 'session', action: 'delete' },
      },
    });
    const answers = await target.revoke(subjectsById({ a: '1', none: '9' }), quiet());
    expect(
      Object.fromEntries(
        (answers.get('a') as { place: string; rows: number }[]).map(({ place, rows }) => [place, rows]),
      ),
    ).toEqual({
      session: 5,
      session_event: 20,
    });
    expect(answers.get('none')).toEqual([]);
    expect(await database.rows('account')).toBe(2);
    await database.query('INSERT INTO session VALUES (11, 1)');
    expect((await countOf(target, { id: '1' })).session?.matched).toBe(1);
    expect((await eraseAll(target, subjectsById({ a: '1' }))).reported).toEqual({ account: 1, session: 1 });
    expect(await database.rows('session')).toBe(5);
  });

  it('WF-17: locates values as text, of rows that are reached through parents too, up to a bound', async () => {
    await database.query(`
      CREATE TABLE receipt (no bigint PRIMARY KEY, id int, path text);
      CREATE TABLE scan (receipt bigint REFERENCES receipt, path text);
      INSERT INTO receipt VALUES (10, 1, 'a'), (9, 1, NULL), (8, 2, 'b');
      INSERT INTO scan VALUES (10, 'x'), (10, 'x'), (9, 'y'), (8, 'z');
      CREATE TABLE endless (id int, path int); INSERT INTO endless SELECT 7, n FROM generate_series(1, 100001) n`);
    const target = database.open({
      tables: { receipt: byId, scan: { through: 'receipt', action: 'delete' }, endless: byId },
    });
    const answers = await target.locate(
      subjectsById({ a: '1', none: '9' }),
      {
        numbers: { place: 'receipt', column: 'no' },
        paths: { place: 'receipt', column: 'path' },
        scans: { place: 'scan', column: 'path' },
      },
      quiet(),
    );
    expect(answers.get('a')).toEqual({ numbers: ['10', '9'], paths: ['a'], scans: ['x', 'y'] });
    expect(answers.get('none')).toEqual({ numbers: [], paths: [], scans: [] });
    const many = await target.locate(
      subjectsById({ a: '1', much: '7' }),
      { paths: { place: 'endless', column: 'path' } },
      quiet(),
    );
    expect(many.get('much')).toBeInstanceOf(TargetBlockedError);
    expect(many.get('a')).toEqual({ paths: [] });
    for (const asked of [
      { place: 'receipt', column: 'nothing' },
      { place: 'elsewhere', column: 'no' },
    ]) {
      expect(await failureOf(target.locate(subjectsById({ a: '1' }), { x: asked }, quiet()))).toBeInstanceOf(
        TargetDeclarationError,
      );
    }
  });

  it('WF-23: vacuums and analyses what it touched, and names the statistics that survive in an emptied table', async () => {
    await database.query(`
      CREATE TABLE emptied (id int, mail text); CREATE TABLE shared (id int, mail text);
      CREATE TABLE parts (id int, mail text) PARTITION BY LIST (id);
      CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1); CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
      INSERT INTO emptied SELECT 1, 'secret ' || n % 3 FROM generate_series(1, 100) n;
      INSERT INTO shared SELECT n % 2, CASE n % 2 WHEN 1 THEN 'secret' ELSE 'public' END FROM generate_series(1, 100) n;
      INSERT INTO parts SELECT 1 + n % 2, 'secret' FROM generate_series(1, 100) n;
      ANALYZE`);
    const target = database.open({ tables: { emptied: byId, shared: byId, parts: byId } });
    await eraseAll(target, subjectsById({ a: '1' }));
    const cleanup = await target.cleanup(['emptied', 'shared', 'parts'], quiet());
    const did = ['vacuum', 'analyze'];
    expect(cleanup).toEqual([
      { place: 'emptied', did, left: ['STATISTICS_OF_EMPTY_TABLE'] },
      { place: 'shared', did, left: [] },
      { place: 'parts', did, left: ['STATISTICS_OF_EMPTY_TABLE'] },
    ]);
    const statistics = (table: string) =>
      database.rows(`pg_stats WHERE tablename = '${table}' AND most_common_vals::text LIKE '%secret%'`);
    expect(await statistics('shared')).toBe(0);
    expect(await statistics('emptied')).toBe(1);
  });

  it('WF-23: says where a clean-up was not possible: no owner, a lock, an older snapshot', async () => {
    await database.query('CREATE TABLE theirs (id int); INSERT INTO theirs SELECT 1 FROM generate_series(1, 10)');
    const role = `expunge_test_${randomBytes(6).toString('hex')}`;
    await database.query(`CREATE ROLE ${role} LOGIN; GRANT SELECT, DELETE, UPDATE ON theirs TO ${role}`);
    const url = new URL(database.url);
    url.username = role;
    const stranger = database.open({ url: url.href, tables: { theirs: byId } });
    await eraseAll(stranger, subjectsById({ a: '1' }));
    expect(await stranger.cleanup(['theirs'], quiet())).toEqual([{ place: 'theirs', did: [], left: ['NOT_OWNER'] }]);
    await stranger.close();
    await database.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);

    const owner = database.open({ tables: { theirs: byId } });
    const other = new (await import('pg')).default.Client({ connectionString: database.url });
    await other.connect();
    await other.query('BEGIN; LOCK TABLE theirs IN SHARE UPDATE EXCLUSIVE MODE');
    expect((await owner.cleanup(['theirs'], quiet()))[0]).toMatchObject({ did: [] });
    expect((await owner.cleanup(['theirs'], quiet()))[0]?.left).toContain('LOCKED');
    await other.query('ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM theirs');
    await database.query('INSERT INTO theirs VALUES (2)');
    expect((await owner.cleanup(['theirs'], quiet()))[0]).toMatchObject({
      did: ['vacuum', 'analyze'],
      left: ['HELD_BY_OLDER_SNAPSHOT'],
    });
    await other.query('ROLLBACK');
    await other.end();
    expect((await owner.cleanup(['theirs'], quiet()))[0]?.left).toEqual([]);
  });

  it('WF-29: a server that falls silent in a clean-up is given up, and not waited for', async () => {
    await database.query('CREATE TABLE silent (id int); INSERT INTO silent SELECT 1 FROM generate_series(1, 10)');
    const proxy = await startPostgresProxy(database.url);
    const timeouts = { cleanup: 300 };
    const target = database.open({ url: proxy.url, tables: { silent: byId }, timeouts });
    await eraseAll(target, subjectsById({ a: '1' }));
    // The version, the privilege, the transaction, and then VACUUM.
    const trap = proxy.interrupt(4, 'hang');
    expect(await failureOf(target.cleanup(['silent'], quiet()))).toBeInstanceOf(TargetUnavailableError);
    expect(trap.met?.text).toMatch(/^VACUUM/);
    expect(await target.cleanup(['silent'], quiet())).toMatchObject([{ did: ['vacuum', 'analyze'] }]);
    await target.close();
    await proxy.close();
  });

  it('warns of missing indexes with size and statement, of triggers and of materialized views, and refuses none of them', async () => {
    await database.query(`
      CREATE SCHEMA "Odd ""One""";
      CREATE TABLE "Odd ""One"""."Client" ("Id" int PRIMARY KEY, "Mail" text);
      CREATE TABLE "Odd ""One"""."Order" (no int, "Client" int REFERENCES "Odd ""One"""."Client");
      INSERT INTO "Odd ""One"""."Order" SELECT n FROM generate_series(1, 1000) n;
      CREATE FUNCTION "Odd ""One""".log() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER "Log" AFTER DELETE ON "Odd ""One"""."Order" FOR EACH ROW EXECUTE FUNCTION "Odd ""One""".log();
      CREATE MATERIALIZED VIEW "Odd ""One""".copy AS SELECT * FROM "Odd ""One"""."Client"`);
    const target = database.open({
      schemas: {
        'Odd "One"': {
          Client: { key: { Id: 'id' }, action: 'delete' },
          Order: { through: 'Client', action: 'delete' },
        },
      },
    });
    const warnings = await target.warnings(quiet());
    expect(warnings.map(({ code, table, statement }) => ({ code, table, statement }))).toEqual([
      {
        code: 'MISSING_INDEX',
        table: 'Odd "One".Order',
        statement: `CREATE INDEX CONCURRENTLY ON "Odd ""One"""."Order" ("Client");`,
      },
      { code: 'TRIGGER', table: 'Odd "One".Order', statement: null },
      {
        code: 'MATERIALIZED_VIEW',
        table: 'Odd "One".Client',
        statement: `REFRESH MATERIALIZED VIEW "Odd ""One"""."copy";`,
      },
    ]);
    expect(warnings[0]?.bytes).toBeGreaterThan(8_192);
    await database.query(String(warnings[0]?.statement));
    const again = database.open({
      schemas: {
        'Odd "One"': {
          Client: { key: { Id: 'id' }, action: 'delete' },
          Order: { through: 'Client', action: 'delete' },
        },
      },
    });
    expect((await again.warnings(quiet())).map(({ code }) => code)).toEqual(['TRIGGER', 'MATERIALIZED_VIEW']);
  });
});
