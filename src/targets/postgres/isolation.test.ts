import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithPostgres } from '../../../test/support/postgres.js';
import {
  countOf,
  createTargetDatabase,
  eraseAll,
  failureOf,
  quiet,
  subjectsById,
  type TargetDatabase,
} from '../../../test/support/postgres-target.js';
import {
  TargetBlockedError,
  TargetDeclarationError,
  TargetFailedError,
  TargetUnavailableError,
} from '../target-error.js';

const byId = { key: { id: 'id' }, action: 'delete' } as const;

function manySubjects(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, n) => [`r${n + 1}`, String(n + 1)]));
}

describeWithPostgres("one subject's fault in PostgreSQL", () => {
  let database: TargetDatabase;
  beforeAll(async () => {
    database = await createTargetDatabase();
  });
  afterAll(() => database.drop());

  it('WF-29: does not stop the others of its batch, whichever it is, and is answered by SQLSTATE and constraint alone', async () => {
    await database.query(`
      CREATE TABLE person (id int, name text, CONSTRAINT named CHECK (name <> 'gone' OR id <> 7));
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF old.id IN (1, 40) THEN RAISE EXCEPTION 'no % here', old.name USING CONSTRAINT = old.name, TABLE = old.name; END IF; RETURN new; END $$;
      CREATE TRIGGER refuse BEFORE UPDATE ON person FOR EACH ROW EXECUTE FUNCTION refuse();
      INSERT INTO person SELECT n, 'secret ' || n FROM generate_series(1, 50) n`);
    const target = database.open({
      tables: { person: { key: { id: 'id' }, action: 'anonymize', set: { name: 'gone' } } },
    });
    const run = await eraseAll(target, subjectsById(manySubjects(50)), { limit: 20 });
    expect([...run.errors.keys()].sort()).toEqual(['r1', 'r40', 'r7']);
    expect(run.reported).toEqual({ person: 47 });
    expect(run.errors.get('r7')).toBeInstanceOf(TargetBlockedError);
    expect(run.errors.get('r7')?.detail).toEqual({
      target: 'operational',
      place: 'person',
      cause: '23514',
      constraint: 'named',
    });
    expect(run.errors.get('r7')?.message).toContain('SQLSTATE 23514, constraint named, table person');
    expect(run.errors.get('r1')).toBeInstanceOf(TargetFailedError);
    for (const error of run.errors.values()) {
      expect(`${error.message} ${JSON.stringify(error)} ${String(error.cause)} ${error.stack}`).not.toMatch(/secret/);
    }
  });

  it('WF-29: is found also where the constraint is checked at the end of the transaction', async () => {
    await database.query(`
      CREATE TABLE file (no int PRIMARY KEY, id int);
      CREATE TABLE audit (file_no int);
      INSERT INTO file SELECT n, n FROM generate_series(1, 16) n;
      CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF old.id = 5 THEN RAISE foreign_key_violation; END IF; RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER late AFTER DELETE ON file DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()`);
    const target = database.open({ tables: { file: byId } });
    const run = await eraseAll(target, subjectsById(manySubjects(16)));
    expect([...run.errors.keys()]).toEqual(['r5']);
    expect(run.errors.get('r5')?.detail.cause).toBe('23503');
    expect(await database.rows('file')).toBe(1);
  });

  it('WF-19: a rule or a trigger that makes nothing of a change is no success, whatever it reports', async () => {
    await database.query(`
      CREATE FUNCTION put_back() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN new.name := old.name; RETURN new; END';
      CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE FUNCTION soft() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN EXECUTE format($$UPDATE %I SET gone = true WHERE id = %s$$, tg_table_name, old.id); RETURN NULL; END';
      CREATE TABLE masked (id int PRIMARY KEY, name text); CREATE TABLE heap_masked (id int, name text);
      CREATE TABLE kept (id int PRIMARY KEY); CREATE TABLE heap_kept (id int);
      CREATE TABLE soft_deleted (id int PRIMARY KEY, gone boolean); CREATE TABLE heap_soft_deleted (id int, gone boolean);
      CREATE TRIGGER t BEFORE UPDATE ON masked FOR EACH ROW EXECUTE FUNCTION put_back();
      CREATE TRIGGER t BEFORE UPDATE ON heap_masked FOR EACH ROW EXECUTE FUNCTION put_back();
      CREATE TRIGGER t BEFORE DELETE ON kept FOR EACH ROW EXECUTE FUNCTION nothing();
      CREATE TRIGGER t BEFORE DELETE ON heap_kept FOR EACH ROW EXECUTE FUNCTION nothing();
      CREATE TRIGGER t BEFORE DELETE ON soft_deleted FOR EACH ROW EXECUTE FUNCTION soft();
      CREATE TRIGGER t BEFORE DELETE ON heap_soft_deleted FOR EACH ROW EXECUTE FUNCTION soft();
      INSERT INTO masked VALUES (1, 'a'); INSERT INTO heap_masked VALUES (1, 'a'), (1, 'b');
      INSERT INTO kept VALUES (1); INSERT INTO heap_kept VALUES (1), (1); INSERT INTO soft_deleted VALUES (1); INSERT INTO heap_soft_deleted VALUES (1)`);
    const mask = { key: { id: 'id' }, action: 'anonymize', set: { name: null } } as const;
    const tables = {
      masked: mask,
      heap_masked: mask,
      kept: byId,
      heap_kept: byId,
      soft_deleted: byId,
      heap_soft_deleted: byId,
    };
    for (const [name, rows] of Object.entries({
      masked: 1,
      heap_masked: 2,
      kept: 1,
      heap_kept: 2,
      soft_deleted: 1,
      heap_soft_deleted: 1,
    })) {
      const target = database.open({ tables: { [name]: tables[name as keyof typeof tables] } });
      for (const limit of [1, 100]) {
        const { errors } = await eraseAll(target, subjectsById({ a: '1' }), { limit });
        expect(errors.get('a')).toBeInstanceOf(TargetFailedError);
        expect(errors.get('a')?.message).toMatch(new RegExp(`place "${name}": [12] rows are left though`));
      }
      expect((await countOf(target, { id: '1' }))[name]?.matched).toBe(rows);
    }
  });

  it('WF-16: children that come back in the transaction that deletes them are counted, and keep their parent', async () => {
    await database.query(`
      CREATE TABLE visit (no int, id int); CREATE TABLE click (visit int, what text);
      CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO click VALUES (old.*); RETURN NULL; END';
      CREATE TRIGGER t AFTER DELETE ON click FOR EACH ROW WHEN (old.what = 'sticks') EXECUTE FUNCTION again();
      INSERT INTO visit VALUES (1, 1), (2, 2); INSERT INTO click VALUES (1, 'sticks'), (1, 'goes'), (2, 'goes')`);
    const target = database.open({
      tables: { visit: byId, click: { through: { table: 'visit', on: { visit: 'no' } }, action: 'delete' } },
    });
    const run = await eraseAll(target, subjectsById({ a: '1', b: '2' }));
    expect([...run.errors.keys()]).toEqual(['a']);
    expect(run.errors.get('a')?.message).toContain('place "click": 1 rows are left');
    expect(await database.query('SELECT no FROM visit')).toEqual([{ no: 1 }]);
    expect(await database.rows('click')).toBe(2);
  });

  it('WF-16: a child whose trigger suppresses a cascade is named, and its parent stays', async () => {
    await database.query(`
      CREATE TABLE parent (id int PRIMARY KEY);
      CREATE TABLE child (parent int REFERENCES parent ON DELETE CASCADE, what text);
      CREATE TRIGGER t BEFORE DELETE ON child FOR EACH ROW WHEN (old.what = 'stays') EXECUTE FUNCTION nothing();
      INSERT INTO parent VALUES (1), (2); INSERT INTO child VALUES (1, 'stays'), (1, 'goes'), (2, 'goes'), (99 - 97, 'goes')`);
    const target = database.open({ tables: { parent: byId, child: { through: 'parent', action: 'delete' } } });
    const run = await eraseAll(target, subjectsById({ a: '1', b: '2' }));
    expect([...run.errors.keys()]).toEqual(['a']);
    expect(run.errors.get('a')?.message).toContain('place "child": 1 rows are left');
    expect(await database.rows('parent')).toBe(1);
    expect(await database.rows('child')).toBe(2);
  });
});

describeWithPostgres('a PostgreSQL server that does not do it now', () => {
  let database: TargetDatabase;
  beforeAll(async () => {
    database = await createTargetDatabase();
  });
  afterAll(() => database.drop());

  it('WF-29: locked rows, time-outs and shutdowns are waited for, not counted', async () => {
    await database.query('CREATE TABLE busy (id int PRIMARY KEY); INSERT INTO busy VALUES (1)');
    const target = database.open({ tables: { busy: byId }, timeouts: { lock: 100, statement: 5_000 } });
    await target.describe(quiet());
    const other = new pg.Client({ connectionString: database.url });
    await other.connect();
    await other.query('BEGIN; SELECT FROM busy FOR UPDATE');
    const locked = await failureOf(eraseAll(target, subjectsById({ a: '1' })));
    expect(locked).toBeInstanceOf(TargetUnavailableError);
    expect(locked.detail.cause).toBe('55P03');
    await other.query('ROLLBACK; BEGIN; LOCK TABLE busy');
    expect((await failureOf(target.count(subjectsById({ a: '1' }), quiet()))).detail.cause).toBe('55P03');
    await other.query('ROLLBACK');
    await other.end();
    expect((await eraseAll(target, subjectsById({ a: '1' }))).reported).toEqual({ busy: 1 });
  });

  it('WF-29: an application that locks the same rows in another order is waited out', async () => {
    await database.query('CREATE TABLE pair (id int, no int PRIMARY KEY); INSERT INTO pair VALUES (1, 1), (1, 2)');
    const target = database.open({ tables: { pair: byId } });
    await target.describe(quiet());
    const other = new pg.Client({ connectionString: database.url });
    await other.connect();
    // Whichever of the two the server chooses to cancel, the erase comes to its end.
    await other.query(`BEGIN; SET LOCAL deadlock_timeout = '10s'; SELECT FROM pair WHERE no = 2 FOR UPDATE`);
    const erasing = eraseAll(target, subjectsById({ a: '1' }));
    await waitFor(
      async () =>
        (await database.rows(`pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)) === 1,
    );
    const locking = other.query('SELECT FROM pair WHERE no = 1 FOR UPDATE');
    await Promise.race([locking, erasing.catch(() => undefined)]);
    await locking;
    await other.query('COMMIT');
    await other.end();
    await erasing.catch((error: unknown) => expect(error).toBeInstanceOf(TargetUnavailableError));
    await eraseAll(target, subjectsById({ a: '1' }));
    expect(await database.rows('pair')).toBe(0);
  });

  it('WF-14: a row that changes hands while it is waited for is left alone', async () => {
    await database.query('CREATE TABLE gift (id int, no int PRIMARY KEY); INSERT INTO gift VALUES (1, 1), (1, 2)');
    const target = database.open({ tables: { gift: byId } });
    await target.describe(quiet());
    const other = new pg.Client({ connectionString: database.url });
    await other.connect();
    await other.query('BEGIN; UPDATE gift SET id = 2 WHERE no = 1');
    const erasing = eraseAll(target, subjectsById({ a: '1' }));
    await waitFor(
      async () =>
        (await database.rows(`pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)) === 1,
    );
    await other.query('COMMIT');
    await other.end();
    expect((await erasing).reported).toEqual({ gift: 1 });
    expect(await database.query('SELECT * FROM gift')).toEqual([{ id: 2, no: 1 }]);
  });

  it("WF-14: a row that is changed and stays the subject's while it is waited for is deleted", async () => {
    await database.query('CREATE TABLE draft (id int, body text); INSERT INTO draft VALUES (1, $$a$$)');
    const target = database.open({ tables: { draft: byId } });
    await target.describe(quiet());
    const other = new pg.Client({ connectionString: database.url });
    await other.connect();
    await other.query('BEGIN; UPDATE draft SET body = $$b$$');
    const erasing = eraseAll(target, subjectsById({ a: '1' }));
    await waitFor(
      async () =>
        (await database.rows(`pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)) === 1,
    );
    await other.query('COMMIT');
    await other.end();
    expect((await erasing).reported).toEqual({ draft: 1 });
    expect(await database.rows('draft')).toBe(0);
  });

  it('WF-14: a row that changes hands while its lock is waited for is not masked either, and one that stays is', async () => {
    await database.query(
      'CREATE TABLE card (id int, no int PRIMARY KEY, name text, seen int); INSERT INTO card VALUES (1, 1, $$a$$), (1, 2, $$b$$), (1, 3, $$c$$)',
    );
    const target = database.open({ tables: { card: { key: { id: 'id' }, action: 'anonymize', set: { name: null } } } });
    await target.describe(quiet());
    const other = new pg.Client({ connectionString: database.url });
    await other.connect();
    await other.query('BEGIN; UPDATE card SET id = 2 WHERE no = 1; UPDATE card SET seen = 1 WHERE no = 2');
    const erasing = eraseAll(target, subjectsById({ a: '1' }));
    await waitFor(
      async () =>
        (await database.rows(`pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)) === 1,
    );
    await other.query('COMMIT');
    await other.end();
    expect((await erasing).reported).toEqual({ card: 2 });
    expect(await database.query('SELECT id, no, name FROM card ORDER BY no')).toEqual([
      { id: 2, no: 1, name: 'a' },
      { id: 1, no: 2, name: null },
      { id: 1, no: 3, name: null },
    ]);
  });

  it('WF-12: what went away since is an error that blocks, never a count of zero', async () => {
    await database.query('CREATE TABLE going (id int); CREATE TABLE column_going (id int, name text)');
    const target = database.open({ tables: { going: byId, column_going: byId } });
    await target.describe(quiet());
    await database.query('DROP TABLE going');
    const missing = await failureOf(target.count(subjectsById({ a: '1' }), quiet()));
    expect(missing).toBeInstanceOf(TargetDeclarationError);
    expect(missing.detail).toEqual({ target: 'operational', place: 'going', cause: '42P01' });
    expect((await failureOf(target.count(subjectsById({ a: '1' }), quiet()))).message).toContain(
      '"going" is not in the database',
    );
  });

  it('tells an unknown database, a refused login and an unreachable server apart', async () => {
    const at = (change: (url: URL) => void) => {
      const url = new URL(database.url);
      change(url);
      return database.open({ url: url.href, tables: { a: byId }, timeouts: { connect: 2_000 } });
    };
    const blocked = await failureOf(at((url) => (url.pathname = '/expunge_test_none')).describe(quiet()));
    expect(blocked).toBeInstanceOf(TargetBlockedError);
    expect(blocked.detail.cause).toBe('3D000');
    expect(
      (await failureOf(at((url) => (url.username = 'expunge_test_nobody')).describe(quiet()))).detail.cause,
    ).toMatch(/^28/);
    const down = await failureOf(at((url) => (url.port = '1')).describe(quiet()));
    expect(down).toBeInstanceOf(TargetUnavailableError);
    expect(down.detail.cause).toBe('ECONNREFUSED');
  });
});

async function waitFor(reached: () => Promise<boolean>): Promise<void> {
  while (!(await reached())) await new Promise((resolve) => setTimeout(resolve, 20));
}
