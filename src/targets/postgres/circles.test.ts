import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithPostgres } from '../../../test/support/postgres.js';
import {
  countOf,
  createTargetDatabase,
  eraseAll,
  quiet,
  subjectsById,
  type TargetDatabase,
} from '../../../test/support/postgres-target.js';

const byOwner = { key: { owner: 'id' }, action: 'delete' } as const;

describeWithPostgres('rows that reference each other in circles', () => {
  let database: TargetDatabase;
  beforeAll(async () => {
    database = await createTargetDatabase();
  });
  afterAll(() => database.drop());

  const keys = [
    'NO ACTION',
    'RESTRICT',
    'ON DELETE CASCADE',
    'ON DELETE SET NULL',
    'DEFERRABLE INITIALLY DEFERRED',
    'DEFERRABLE',
  ].map((rule, index) => ({
    rule,
    suffix: String(index),
    sql: rule === 'NO ACTION' || rule === 'RESTRICT' ? `ON DELETE ${rule}` : rule,
  }));

  it.each(keys)(
    'WF-16: a table that references itself, with $rule, in one slice and in many',
    async ({ suffix, sql }) => {
      // A chain, a tree, a row that is its own parent, and a ring, of two subjects; and somebody else's.
      const table = `thread_${suffix}`;
      const fill = `
      TRUNCATE ${table};
      INSERT INTO ${table}
      SELECT n, o, CASE WHEN n <= 10 THEN nullif(n - 1, 0) + o * 100 WHEN n <= 20 THEN 11 + o * 100 WHEN n = 21 THEN 21 + o * 100
                        WHEN n < 25 THEN n + 1 + o * 100 ELSE 22 + o * 100 END
        FROM (SELECT n + o * 100 AS id, n, o FROM generate_series(1, 25) n, generate_series(1, 3) o) AS rows (id, n, o)`;
      await database.query(
        `CREATE TABLE ${table} (id int PRIMARY KEY, owner int, parent int REFERENCES ${table} ${sql})`,
      );
      const target = database.open({ tables: { [table]: byOwner } });
      for (const limit of [1, 4, 60]) {
        await database.query(fill.replace('SELECT n, o,', 'SELECT id, o,'));
        const run = await eraseAll(target, subjectsById({ a: '1', b: '2' }), { limit });
        expect([...run.errors.values()]).toEqual([]);
        expect(run.reported).toEqual({ [table]: 50 });
        // The ring of four, with nothing else left of its subject, is the only thing that cannot be taken apart.
        expect(run.largest).toBeLessThanOrEqual(Math.max(limit, 4));
        expect(await database.rows(table)).toBe(25);
      }
    },
  );

  it.each(keys.filter(({ rule }) => rule !== 'RESTRICT'))(
    'WF-16: two tables that reference each other, with $rule',
    async ({ suffix, sql }) => {
      const [team, person] = [`team_${suffix}`, `person_${suffix}`];
      await database.query(`
      CREATE TABLE ${team} (id int PRIMARY KEY, owner int, lead int);
      CREATE TABLE ${person} (id int PRIMARY KEY, owner int, team int REFERENCES ${team} ${sql});
      ALTER TABLE ${team} ADD FOREIGN KEY (lead) REFERENCES ${person} ${sql};
      INSERT INTO ${team} SELECT n, n % 3, NULL FROM generate_series(1, 30) n;
      INSERT INTO ${person} SELECT n, n % 3, n FROM generate_series(1, 30) n;
      UPDATE ${team} SET lead = id`);
      const target = database.open({ tables: { [team]: byOwner, [person]: byOwner } });
      const few = await eraseAll(target, subjectsById({ a: '1' }), { limit: 100 });
      const many = await eraseAll(target, subjectsById({ b: '2' }), { limit: 3 });
      expect([...few.errors.values(), ...many.errors.values()]).toEqual([]);
      expect(few.reported).toEqual({ [team]: 10, [person]: 10 });
      expect(many.reported).toEqual({ [team]: 10, [person]: 10 });
      expect(await database.rows(person)).toBe(10);
    },
  );

  it('WF-16: a row that is reached through the one that references it: both in one statement', async () => {
    await database.query(`
      CREATE TABLE address (id int PRIMARY KEY, street text);
      CREATE TABLE buyer (owner int PRIMARY KEY, address int NOT NULL REFERENCES address);
      INSERT INTO address SELECT n, 'street' FROM generate_series(1, 9) n;
      INSERT INTO buyer SELECT n, n FROM generate_series(1, 9) n`);
    const target = database.open({
      tables: { buyer: byOwner, address: { through: { table: 'buyer', on: { id: 'address' } }, action: 'delete' } },
    });
    for (const [limit, ids] of [
      [100, { a: '1', b: '2' }],
      [2, { c: '3', d: '4', e: '5' }],
    ] as const) {
      const run = await eraseAll(target, subjectsById(ids), { limit });
      expect([...run.errors.values()]).toEqual([]);
      expect(run.largest).toBeLessThanOrEqual(Math.max(limit, 2));
    }
    expect(await database.rows('address')).toBe(4);
    expect(await database.rows('buyer')).toBe(4);
  });

  it('WF-16: a circle that goes over two subjects of one batch, in slices that are smaller than it', async () => {
    await database.query(`
      CREATE TABLE letter (id int PRIMARY KEY, owner int, answers int REFERENCES letter);
      INSERT INTO letter SELECT n, 1 + n % 2, CASE n WHEN 10 THEN 1 ELSE n + 1 END FROM generate_series(1, 10) n ORDER BY n DESC`);
    const target = database.open({ tables: { letter: byOwner } });
    const run = await eraseAll(target, subjectsById({ a: '1', b: '2' }), { limit: 3 });
    expect([...run.errors.values()]).toEqual([]);
    expect(await database.rows('letter')).toBe(0);
  });

  it('WF-16: comments of a post that answer each other, with a trigger that updates the post for each of them', async () => {
    await database.query(`
      CREATE TABLE post (id int PRIMARY KEY, owner int, comments int NOT NULL DEFAULT 0);
      CREATE TABLE comment (id int PRIMARY KEY, post int REFERENCES post ON DELETE CASCADE, answers int REFERENCES comment);
      CREATE FUNCTION recount() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN UPDATE post SET comments = comments - 1 WHERE id = old.post; RETURN old; END $$;
      CREATE TRIGGER recount AFTER DELETE ON comment FOR EACH ROW EXECUTE FUNCTION recount();
      INSERT INTO post SELECT n, n % 2, 10 FROM generate_series(1, 10) n;
      INSERT INTO comment SELECT n, 1 + n % 10, CASE WHEN n > 10 THEN n - 10 END FROM generate_series(1, 100) n`);
    const target = database.open({ tables: { post: byOwner, comment: { through: 'post', action: 'delete' } } });
    const run = await eraseAll(target, subjectsById({ a: '1' }), { limit: 12 });
    expect([...run.errors.values()]).toEqual([]);
    expect(run.reported).toEqual({ post: 5, comment: 50 });
    expect(run.largest).toBeLessThanOrEqual(12);
    expect(await database.rows('post')).toBe(5);
    expect((await countOf(target, { id: '0' })).comment?.matched).toBe(50);
  });

  it('WF-16: lines whose trigger moves their order within the transaction that deletes both', async () => {
    await database.query(`
      CREATE TABLE basket (id int PRIMARY KEY, owner int, lines int NOT NULL DEFAULT 3);
      CREATE TABLE line (basket int REFERENCES basket, what text);
      CREATE FUNCTION tally() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN UPDATE basket SET lines = lines - 1 WHERE id = old.basket; RETURN old; END $$;
      CREATE TRIGGER tally AFTER DELETE ON line FOR EACH ROW EXECUTE FUNCTION tally();
      INSERT INTO basket SELECT n, 1 FROM generate_series(1, 10) n;
      INSERT INTO line SELECT 1 + n % 10, 'thing' FROM generate_series(1, 30) n;
      ANALYZE`);
    const target = database.open({ tables: { basket: byOwner, line: { through: 'basket', action: 'delete' } } });
    await target.describe(quiet());
    const run = await eraseAll(target, subjectsById({ a: '1' }));
    expect([...run.errors.values()]).toEqual([]);
    expect(run).toMatchObject({ slices: 1, reported: { basket: 10, line: 30 } });
  });
});
