import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Target, TargetSubject } from '../target.js';
import type { Tables } from '../tables/declaration.js';
import { TargetError } from '../target-error.js';
import { connect, type Connection } from './connection.js';
import { sqlite } from './index.js';

const fast = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const quiet = (): AbortSignal => new AbortController().signal;
const key = { id: 'customerId' } as const;
const subject: TargetSubject = { identifiers: { customerId: 'u1' }, locators: {} };
const SECRET = 'zanzibarquagmire';

let directory: string;
let application: Connection;
let target: Target | null;

beforeEach(async () => {
  directory = await mkdtemp(join(fast, 'expunge-fts-'));
  application = await connect(join(directory, 'search.db'));
  target = null;
});
afterEach(async () => {
  await target?.close();
  await application.close();
  await rm(directory, { recursive: true, force: true });
});

async function run(...statements: readonly string[]): Promise<void> {
  for (const statement of statements) await application.query(statement);
}

function open(tables: Tables): Target {
  target = sqlite({ file: join(directory, 'search.db'), tables }).open('search');
  return target;
}

async function erase(opened: Target): Promise<unknown> {
  const answers = await opened.erase(new Map([['r', { ...subject, cursor: null }]]), { limit: 1_000, signal: quiet() });
  return answers.get('r');
}

async function matched(opened: Target): Promise<number> {
  const counts = (await opened.count(new Map([['r', subject]]), quiet())).get('r')!;
  if (counts instanceof TargetError) throw counts;
  return counts.reduce((sum, count) => sum + count.matched, 0);
}

/** The files in which a word stands, whatever its case: an index holds it folded. */
async function filesWith(word: string): Promise<readonly string[]> {
  const names = await readdir(directory);
  const found = await Promise.all(
    names.map(async (name) => (await readFile(join(directory, name))).toString('latin1').toLowerCase().includes(word)),
  );
  return names.filter((_, index) => found[index]);
}

const article = [
  'CREATE TABLE article (no INTEGER PRIMARY KEY, id TEXT, note TEXT)',
  "CREATE VIRTUAL TABLE search USING fts5(note, content='article', content_rowid='no')",
  'CREATE TRIGGER a AFTER INSERT ON article BEGIN INSERT INTO search (rowid, note) VALUES (new.no, new.note); END',
];
const wellKept =
  "CREATE TRIGGER d AFTER DELETE ON article BEGIN INSERT INTO search (search, rowid, note) VALUES ('delete', old.no, old.note); END";

it.each(['delete', 'wal'])('WF-23: leaves the text in no file, with journal mode %s', async (mode) => {
  await run(
    `PRAGMA journal_mode = ${mode}`,
    // An application that does not overwrite what it frees.
    'PRAGMA secure_delete = OFF',
    ...article,
    wellKept,
    'CREATE VIRTUAL TABLE document USING fts5(id UNINDEXED, note)',
    "CREATE VIRTUAL TABLE words USING fts5(note, content='', contentless_delete=1)",
  );
  for (let n = 0; n < 40; n += 1) {
    const [id, word] = n % 4 === 0 ? ['u1', SECRET] : ['u2', 'harmless'];
    await application.query('INSERT INTO article (id, note) VALUES (?1, ?2)', [id, `about ${word} here ${n}`]);
    await application.query('INSERT INTO document VALUES (?1, ?2)', [id, `about ${word} there ${n}`]);
    await application.query('INSERT INTO words (rowid, note) VALUES (last_insert_rowid(), ?1)', [`${word} ${n}`]);
  }
  // What an earlier delete of the application left lies in free pages and in the index's notes.
  await run('DELETE FROM document WHERE rowid = 1');
  expect(await filesWith(SECRET)).not.toEqual([]);
  const opened = open({
    article: { key, action: 'delete' },
    document: { key, action: 'delete' },
    words: { through: { table: 'article', on: { rowid: 'no' } }, action: 'delete' },
  });
  expect(await erase(opened)).toMatchObject({ done: true });
  expect(await matched(opened)).toBe(0);
  const cleaned = await opened.cleanup!(['article', 'document', 'words'], quiet());
  expect(cleaned.flatMap(({ left }) => left)).toEqual([]);
  expect(await filesWith(SECRET)).toEqual([]);
  expect(await filesWith('harmless')).not.toEqual([]);
});

it.each([
  ['no trigger', null],
  [
    'a trigger that deletes when the text is gone',
    'CREATE TRIGGER d AFTER DELETE ON article BEGIN DELETE FROM search WHERE rowid = old.no; END',
  ],
])('WF-19: refuses to delete rows whose words would stay in an index, because of %s', async (_, trigger) => {
  await run(...article, ...(trigger === null ? [] : [trigger]));
  await run(`INSERT INTO article (id, note) VALUES ('u1', '${SECRET}')`);
  const opened = open({ article: { key, action: 'delete' } });
  await expect(erase(opened)).rejects.toMatchObject({
    code: 'TARGET_FAILED',
    detail: { cause: 'SEARCH_INDEX_NOT_KEPT' },
  });
  expect(await matched(opened)).toBe(1);
});

it('WF-19: a trigger that suppresses the delete never lets it complete', async () => {
  await run(
    'CREATE TABLE profile (id TEXT)',
    "INSERT INTO profile VALUES ('u1')",
    'CREATE TRIGGER lie BEFORE DELETE ON profile BEGIN SELECT raise(IGNORE); END',
  );
  const opened = open({ profile: { key, action: 'delete' } });
  expect(await erase(opened)).toMatchObject({ code: 'TARGET_FAILED' });
  expect(await matched(opened)).toBe(1);
});

it('WF-29: waits for a lock of somebody else', async () => {
  await run('CREATE TABLE profile (id TEXT)', "INSERT INTO profile VALUES ('u1')");
  const opened = open({ profile: { key, action: 'delete' } });
  await run('BEGIN IMMEDIATE');
  await expect(erase(opened)).rejects.toMatchObject({ code: 'TARGET_UNAVAILABLE', detail: { cause: 'SQLITE_BUSY' } });
  await run('ROLLBACK');
  expect(await erase(opened)).toMatchObject({ done: true });
});

it('WF-10: refuses by name what it cannot honestly delete from', async () => {
  await run(
    ...article,
    'CREATE TABLE profile (id TEXT PRIMARY KEY)',
    'CREATE TABLE alias (id TEXT REFERENCES profile ON DELETE CASCADE)',
    "CREATE VIRTUAL TABLE dead USING fts5(note, content='')",
    "CREATE VIRTUAL TABLE words USING fts5(note, content='', contentless_delete=1)",
    'CREATE TABLE bare (id TEXT PRIMARY KEY) WITHOUT ROWID',
    'CREATE VIEW seen AS SELECT * FROM profile',
    'CREATE TABLE tree (no INTEGER PRIMARY KEY, id TEXT, above INTEGER REFERENCES tree)',
    'CREATE TABLE weight (id REAL)',
  );
  const refused: readonly (readonly [string, Tables, RegExp])[] = [
    ['an index over a table', { search: { key: { note: 'customerId' }, action: 'delete' } }, /declare "article"/],
    [
      'an indexed table overwritten',
      { article: { key, action: 'anonymize', set: { note: '' } } },
      /indexed by "search"/,
    ],
    ['undeclared references', { profile: { key, action: 'delete' } }, /"alias"/],
    ['a contentless index', { dead: { key: { note: 'customerId' }, action: 'delete' } }, /contentless_delete=1/],
    ['a key of one without text', { words: { key: { note: 'customerId' }, action: 'delete' } }, /rowid/],
    ['no row numbers', { bare: { key, action: 'delete' } }, /WITHOUT ROWID/],
    ['a view', { seen: { key, action: 'delete' } }, /is a view/],
    ['a part of an index', { search_data: { key, action: 'delete' } }, /declare the index/],
    ['a circle', { tree: { key, action: 'delete' } }, /circle/],
    ['another type', { weight: { key, action: 'delete' } }, /type REAL/],
    ['a missing table', { gone: { key, action: 'delete' } }, /is not in the database/],
    ['a missing column', { alias: { key: { nope: 'customerId' }, action: 'delete' } }, /"nope"/],
  ];
  for (const [what, tables, text] of refused) {
    const opened = open(tables);
    await expect(opened.describe(quiet()), what).rejects.toMatchObject({
      code: 'TARGET_DECLARATION',
      message: expect.stringMatching(text) as string,
    });
    await opened.close();
  }
});
