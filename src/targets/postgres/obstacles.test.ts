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
import { TargetBlockedError, TargetFailedError } from '../target-error.js';

const bySender = { key: { sender: 'id' }, action: 'delete' } as const;

describeWithPostgres("rows of others that hang on a subject's", () => {
  let database: TargetDatabase;
  beforeAll(async () => {
    database = await createTargetDatabase();
  });
  afterAll(() => database.drop());

  /** 1 wrote 1, 2 answered it with 2 and 3, 3 answered 2 with 4, and 1 answered herself with 5. */
  async function messages(table: string, rule: string): Promise<void> {
    await database.query(`
      CREATE TABLE ${table} (id int PRIMARY KEY, sender int, reply_to int CONSTRAINT ${table}_reply REFERENCES ${table} ${rule}, body text);
      INSERT INTO ${table} VALUES (1, 1, NULL, 'a'), (2, 2, 1, 'b'), (3, 2, 1, 'c'), (4, 3, 2, 'd'), (5, 1, 1, 'e'), (6, 4, NULL, 'f')`);
  }

  it.each([
    ['CASCADE', 'ON DELETE CASCADE'],
    ['SET NULL', 'ON DELETE SET NULL'],
    ['SET DEFAULT', 'ON DELETE SET DEFAULT'],
    ['RESTRICT', 'ON DELETE RESTRICT'],
    ['NO ACTION', 'ON DELETE NO ACTION DEFERRABLE INITIALLY DEFERRED'],
  ])(
    'WF-10: are no part of the inventory: with %s the subject is refused, alone, before anything of it is erased',
    async (action, rule) => {
      const table = `mail_${action.toLowerCase().replace(' ', '_')}`;
      await messages(table, rule);
      const target = database.open({ tables: { [table]: bySender } });
      const run = await eraseAll(target, subjectsById({ a: '1', d: '4' }));
      const error = run.errors.get('a')!;
      expect(error).toBeInstanceOf(TargetBlockedError);
      expect(error.message).toBe(
        `Target "operational", place "${table}": 2 rows of "${table}" that are not in the inventory reference rows of this subject (${table}_reply, ON DELETE ${action}); nothing was erased: declare them with a rule of their own, or remove the references.`,
      );
      expect(error.detail).toMatchObject({ place: table, constraint: `${table}_reply` });
      expect([...run.errors.keys()]).toEqual(['a']);
      expect(await database.query(`SELECT id, reply_to FROM ${table} ORDER BY id`)).toEqual(
        [
          [1, null],
          [2, 1],
          [3, 1],
          [4, 2],
          [5, 1],
        ].map(([id, reply_to]) => ({ id, reply_to })),
      );
    },
  );

  it('WF-10: are no obstacle where they are erased with the same batch, unless their own subject is obstructed', async () => {
    await messages('chat', 'ON DELETE CASCADE');
    const target = database.open({ tables: { chat: bySender } });
    // 2 is obstructed by 3, and so is 1 by 2.
    const two = await eraseAll(target, subjectsById({ a: '1', b: '2' }));
    expect([...two.errors.keys()].sort()).toEqual(['a', 'b']);
    expect(await database.rows('chat')).toBe(6);
    const three = await eraseAll(target, subjectsById({ a: '1', b: '2', c: '3' }), { limit: 2 });
    expect(three.errors.size).toBe(0);
    expect(await database.rows('chat')).toBe(1);
  });

  it('WF-10: are changed only by a rule of their own, which is counted like all others', async () => {
    await messages('note', 'ON DELETE RESTRICT');
    const target = database.open({
      tables: {
        note: [
          bySender,
          { through: { table: 'note(sender)', on: { reply_to: 'id' } }, action: 'anonymize', set: { reply_to: null } },
        ],
      },
    });
    const places = await target.describe(quiet());
    expect(places.map(({ place }) => place)).toEqual(['note(reply_to)', 'note(sender)']);
    const counts = await countOf(target, { id: '1' });
    expect([counts['note(reply_to)']?.matched, counts['note(sender)']?.matched]).toEqual([3, 2]);
    const run = await eraseAll(target, subjectsById({ a: '1' }), { limit: 1 });
    expect([...run.errors.values()]).toEqual([]);
    expect(run.reported).toEqual({ 'note(reply_to)': 3, 'note(sender)': 2 });
    expect(await database.query('SELECT id, reply_to FROM note ORDER BY id')).toEqual([
      { id: 2, reply_to: null },
      { id: 3, reply_to: null },
      { id: 4, reply_to: 2 },
      { id: 6, reply_to: null },
    ]);
  });

  it('WF-10: are found again under the lock, when they come after the erase began', async () => {
    await database.query(`
      CREATE TABLE question (id int PRIMARY KEY, sender int, body text);
      CREATE TABLE answer (id int PRIMARY KEY, sender int, question int REFERENCES question ON DELETE CASCADE);
      INSERT INTO question SELECT n, 1, 'q' FROM generate_series(1, 5) n;
      INSERT INTO answer SELECT n, 1, n FROM generate_series(1, 5) n`);
    const target = database.open({ tables: { question: bySender, answer: bySender } });
    const batch = new Map([...subjectsById({ a: '1' })].map(([ref, subject]) => [ref, { ...subject, cursor: null }]));
    const first = await target.erase(batch, { limit: 6, signal: quiet() });
    expect(first.get('a')).toMatchObject({ done: false, cursor: { next: 'question' } });
    await database.query('INSERT INTO answer SELECT 9, 2, max(id) FROM question');
    const resumed = await eraseAll(target, subjectsById({ a: '1' }), { cursor: { next: 'question', restarts: 0 } });
    expect(resumed.errors.get('a')).toBeInstanceOf(TargetBlockedError);
    expect(await database.rows('answer')).toBe(1);
    expect(await database.rows('question')).toBe(4);
    const exhausted = await target.erase(
      new Map([...batch].map(([ref, subject]) => [ref, { ...subject, cursor: { next: 'question', restarts: 3 } }])),
      { limit: 5, signal: quiet() },
    );
    expect(exhausted.get('a')).toBeInstanceOf(TargetFailedError);
    expect(await database.rows('answer')).toBe(1);
  });

  it('WF-15: rows of the subject that came back below a finished unit are erased too', async () => {
    await database.query(`
      CREATE TABLE parcel (id int PRIMARY KEY, sender int);
      CREATE TABLE stamp (id int PRIMARY KEY, sender int, parcel int REFERENCES parcel);
      INSERT INTO parcel SELECT n, 1 FROM generate_series(1, 5) n;
      INSERT INTO stamp VALUES (1, 1, 1)`);
    const target = database.open({ tables: { parcel: bySender, stamp: bySender } });
    const run = await eraseAll(target, subjectsById({ a: '1' }), { cursor: { next: 'parcel', restarts: 0 } });
    expect([...run.errors.values()]).toEqual([]);
    expect(run.reported).toEqual({ parcel: 5, stamp: 1 });
  });
});
