import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { FaultyStore } from '../../../test/support/faulty-store.js';
import { describeTarget, type TargetHarness } from '../../testing/index.js';
import type { TargetSubject } from '../target.js';
import { parseRules, tablesSchema } from '../tables/declaration.js';
import { StoreTarget } from '../tables/store/store-target.js';
import { connect } from './connection.js';
import { SqliteStore } from './sqlite-store.js';
import { z } from 'zod';

/** All kinds of indexes, a key of one and of two columns, children with and without a foreign key, a folding collation. */
const schema = [
  'PRAGMA journal_mode = WAL',
  'CREATE TABLE profile (no INTEGER PRIMARY KEY, tenant TEXT COLLATE NOCASE, id TEXT COLLATE NOCASE, note TEXT)',
  'CREATE TABLE alias (profile_no INTEGER REFERENCES profile ON DELETE CASCADE, note TEXT)',
  "CREATE VIRTUAL TABLE words USING fts5(note, content='', contentless_delete=1)",
  'CREATE VIRTUAL TABLE document USING fts5(tenant UNINDEXED, id UNINDEXED, note)',
  'CREATE TABLE article (no INTEGER PRIMARY KEY, tenant, id INTEGER, note TEXT)',
  "CREATE VIRTUAL TABLE article_search USING fts5(note, content='article', content_rowid='no')",
  'CREATE TRIGGER article_in AFTER INSERT ON article BEGIN INSERT INTO article_search (rowid, note) VALUES (new.no, new.note); END',
  "CREATE TRIGGER article_out AFTER DELETE ON article BEGIN INSERT INTO article_search (article_search, rowid, note) VALUES ('delete', old.no, old.note); END",
  'CREATE TABLE "News Letter" (email TEXT, note TEXT)',
];

/** In memory where the machine has that. */
const fast = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

const key = { tenant: 'tenantId', id: 'customerId' };
const tables = {
  profile: { key, action: 'delete' },
  alias: { through: 'profile', action: 'delete' },
  words: { through: { table: 'profile', on: { rowid: 'no' } }, action: 'delete' },
  document: { key, action: 'delete' },
  article: { key, action: 'delete' },
  'News Letter': { key: { email: 'email' }, action: 'anonymize', set: { email: null, note: '' } },
} as const;

const names = Object.keys(tables);
const rowsOf = [
  'SELECT no || note || tenant || id FROM profile WHERE CAST(tenant AS TEXT) = ?1 COLLATE BINARY AND CAST(id AS TEXT) = ?2 COLLATE BINARY',
  'SELECT a.rowid || a.note FROM alias a JOIN profile p ON p.no = a.profile_no WHERE p.tenant = ?1 COLLATE BINARY AND p.id = ?2 COLLATE BINARY',
  'SELECT w.rowid FROM words w JOIN profile p ON p.no = w.rowid WHERE p.tenant = ?1 COLLATE BINARY AND p.id = ?2 COLLATE BINARY',
  'SELECT rowid || note FROM document WHERE tenant = ?1 AND id = ?2',
  'SELECT no || note FROM article WHERE tenant = ?1 AND CAST(id AS TEXT) = ?2',
  'SELECT rowid || note || email FROM "News Letter" WHERE email = ?3',
].join(' UNION ALL ');

function valuesOf({ identifiers }: TargetSubject): string[] {
  return [identifiers.tenantId!, identifiers.customerId!, identifiers.email!];
}

async function open(): Promise<TargetHarness> {
  const directory = await mkdtemp(join(fast, 'expunge-sqlite-'));
  const file = join(directory, 'search.db');
  const application = await connect(file);
  for (const statement of schema) await application.query(statement);
  const faulty = new FaultyStore();
  const declared = parseRules(
    { kind: 'sqlite', schema: z.object({ tables: tablesSchema }), defaultSchema: 'main' },
    { tables },
  );
  const reopen = () => new StoreTarget('search', new SqliteStore(file, faulty.wrap(connect)), declared);
  return {
    target: reopen(),
    reopen: async () => reopen(),
    async plant(subject, copies, secret) {
      const numbers = JSON.stringify(Array.from({ length: copies }, (_, n) => n));
      const [last] = await application.query('SELECT coalesce(max(no), 0) AS no FROM profile');
      const values = [...valuesOf(subject).slice(0, 2), `${secret} text`, numbers];
      await application.query('BEGIN IMMEDIATE');
      await application.query('INSERT INTO profile (tenant, id, note) SELECT ?1, ?2, ?3 FROM json_each(?4)', values);
      await application.query('INSERT INTO alias SELECT no, ?2 FROM profile WHERE no > ?1', [
        Number(last!['no']),
        secret,
      ]);
      await application.query('INSERT INTO words (rowid, note) SELECT no, ?2 FROM profile WHERE no > ?1', [
        Number(last!['no']),
        secret,
      ]);
      await application.query('INSERT INTO document (tenant, id, note) SELECT ?1, ?2, ?3 FROM json_each(?4)', values);
      await application.query('INSERT INTO article (tenant, id, note) SELECT ?1, ?2, ?3 FROM json_each(?4)', values);
      await application.query('INSERT INTO "News Letter" SELECT ?1, ?2 FROM json_each(?3)', [
        valuesOf(subject)[2]!,
        secret,
        numbers,
      ]);
      await application.query('COMMIT');
      return names.map((place) => ({ place, copies: copiesIn(place, subject, copies) }));
    },
    async fingerprint(subject) {
      const rows = await application.query(rowsOf, valuesOf(subject));
      const texts = rows.map((row) => String(Object.values(row)[0])).sort();
      return createHash('sha256').update(JSON.stringify(texts)).digest('hex');
    },
    async fault(kind) {
      if (kind === 'slow' || kind === 'half' || kind === 'silent') return faulty.break(kind);
      if (kind === 'down') {
        await rename(file, `${file}.away`);
        return () => rename(`${file}.away`, file);
      }
      await application.query('ALTER TABLE "News Letter" RENAME TO gone');
      return async () => void (await application.query('ALTER TABLE gone RENAME TO "News Letter"'));
    },
    locate: {
      queries: { notes: { place: 'article', column: 'note' } },
      async plant(subject, count) {
        const notes = Array.from({ length: count }, (_, n) => `${subject.identifiers.customerId} file ${n}`);
        for (const note of notes)
          await application.query('INSERT INTO article (tenant, id, note) VALUES (?1, ?2, ?3)', [
            ...valuesOf(subject).slice(0, 2),
            note,
          ]);
        return { notes };
      },
    },
    async close() {
      await application.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** A column of INTEGER affinity makes 7 of "007": what is stored is not what was planted. */
function copiesIn(place: string, { identifiers }: TargetSubject, copies: number): number {
  if (place !== 'article') return copies;
  const id = identifiers.customerId!;
  return /^[ \t\n\r]*[-+]?[0-9.]+(e[0-9]+)?[ \t\n\r]*$/i.test(id) && !/^(0|[1-9]\d*)$/.test(id) && /\d/.test(id)
    ? 0
    : copies;
}

describeTarget(
  'sqlite',
  {
    open,
    identifiers: ['tenantId', 'customerId', 'email'],
    composite: ['tenantId', 'customerId'],
    faults: ['down', 'slow', 'half', 'silent', 'missing'],
  },
  { describe, it },
);
