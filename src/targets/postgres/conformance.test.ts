import { describe, it } from 'vitest';
import { startPostgresProxy } from '../../../test/support/postgres-proxy.js';
import { describeWithPostgres } from '../../../test/support/postgres.js';
import { createTargetDatabase, type TargetDatabase } from '../../../test/support/postgres-target.js';
import { describeTarget } from '../../testing/index.js';
import type { FaultKind, TargetHarness } from '../../testing/harness.js';
import type { TargetSubject } from '../target.js';

const schema = `
CREATE TABLE account (no bigserial PRIMARY KEY, tenant text, id text, note text);
CREATE TABLE post (no bigserial PRIMARY KEY, tenant text, id text, reply_to bigint REFERENCES post, note text);
CREATE TABLE attachment (no bigserial, post_no bigint REFERENCES post ON DELETE CASCADE, note text);
CREATE TABLE visit (no bigserial, tenant text, id text, note text) PARTITION BY HASH (no);
CREATE TABLE visit_0 PARTITION OF visit FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE visit_1 PARTITION OF visit FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE "Search Log" (visit_no bigint, "The ""Note""" text);
CREATE TABLE newsletter (no bigserial PRIMARY KEY, email text, note text);
CREATE TABLE session (no bigserial PRIMARY KEY, tenant text, id text, note text);`;

const tables = {
  account: { key: { tenant: 'tenantId', id: 'customerId' }, action: 'delete' },
  post: { key: { tenant: 'tenantId', id: 'customerId' }, action: 'delete' },
  attachment: { through: 'post', action: 'delete' },
  visit: { key: { tenant: 'tenantId', id: 'customerId' }, action: 'delete' },
  'Search Log': { through: { table: 'visit', on: { visit_no: 'no' } }, action: 'delete' },
  newsletter: { key: { email: 'email' }, action: 'anonymize', set: { email: null, note: '' } },
  session: { key: { tenant: 'tenantId', id: 'customerId' }, action: 'delete', revoke: true },
} as const;

const names = ['account', 'post', 'attachment', 'visit', '"Search Log"', 'newsletter', 'session'];

/** Each table's rows of a subject; $1 tenant, $2 customer, $3 email. */
const rowsOf = [
  'SELECT t::text FROM account t WHERE tenant = $1 AND id = $2',
  'SELECT t::text FROM post t WHERE tenant = $1 AND id = $2',
  'SELECT t::text FROM attachment t JOIN post p ON p.no = t.post_no WHERE p.tenant = $1 AND p.id = $2',
  'SELECT t::text FROM visit t WHERE tenant = $1 AND id = $2',
  'SELECT t::text FROM "Search Log" t JOIN visit v ON v.no = t.visit_no WHERE v.tenant = $1 AND v.id = $2',
  'SELECT t::text FROM newsletter t WHERE email = $3',
  'SELECT t::text FROM session t WHERE tenant = $1 AND id = $2',
].join(' UNION ALL ');

function valuesOf({ identifiers }: TargetSubject): string[] {
  return [identifiers.tenantId!, identifiers.customerId!, identifiers.email!];
}

async function plant(database: TargetDatabase, subject: TargetSubject, copies: number, secret: string): Promise<void> {
  await database.query(
    `WITH numbers AS (SELECT n FROM generate_series(1, $4::int) n),
       a AS (INSERT INTO account (tenant, id, note) SELECT $1, $2, $5 FROM numbers),
       p AS (INSERT INTO post (tenant, id, note) SELECT $1, $2, $5 FROM numbers RETURNING no),
       t AS (INSERT INTO attachment (post_no, note) SELECT no, $5 FROM p),
       v AS (INSERT INTO visit (tenant, id, note) SELECT $1, $2, $5 FROM numbers RETURNING no),
       l AS (INSERT INTO "Search Log" SELECT no, $5 FROM v),
       s AS (INSERT INTO session (tenant, id, note) SELECT $1, $2, $5 FROM numbers)
     INSERT INTO newsletter (email, note) SELECT $3, $5 FROM numbers`,
    [...valuesOf(subject), copies, secret],
  );
  // A thread: every post answers the one before, the first one the last.
  await database.query(
    `UPDATE post t SET reply_to = coalesce(
              (SELECT max(no) FROM post WHERE tenant = $1 AND id = $2 AND no < t.no),
              (SELECT max(no) FROM post WHERE tenant = $1 AND id = $2))
      WHERE tenant = $1 AND id = $2`,
    valuesOf(subject).slice(0, 2),
  );
}

async function open(): Promise<TargetHarness> {
  const database = await createTargetDatabase(schema);
  const proxy = await startPostgresProxy(database.url, { halves: (text) => text.includes('BEGIN ISOLATION') });
  const reopen = () => database.open({ url: proxy.url, tables });
  return {
    target: reopen(),
    reopen: async () => reopen(),
    async plant(subject, copies, secret) {
      await plant(database, subject, copies, secret);
      return names.map((place) => ({ place: place.replaceAll('"', ''), copies }));
    },
    async fingerprint(subject) {
      const [row] = await database.query(
        `SELECT md5(coalesce(string_agg(t, '|' ORDER BY t COLLATE "C"), '')) AS print FROM (${rowsOf}) AS rows (t)`,
        valuesOf(subject),
      );
      return String(row?.print);
    },
    fault: (kind) => makeFault(kind, database, (fault) => proxy.set(fault)),
    access: {
      async plant(subject, sessions) {
        await database.query('INSERT INTO session (tenant, id) SELECT $1, $2 FROM generate_series(1, $3::int)', [
          ...valuesOf(subject).slice(0, 2),
          sessions,
        ]);
      },
      async count(subject) {
        const [row] = await database.query(
          'SELECT count(*)::int AS rows FROM session WHERE tenant = $1 AND id = $2',
          valuesOf(subject).slice(0, 2),
        );
        return Number(row?.rows);
      },
    },
    locate: {
      queries: { files: { place: 'account', column: 'note' }, words: { place: 'Search Log', column: 'The "Note"' } },
      async plant(subject, count) {
        const notes = Array.from({ length: count }, (_, n) => `${subject.identifiers.customerId} file ${n}`);
        for (const note of notes) await plant(database, subject, 1, note);
        return { files: notes, words: notes };
      },
    },
    async close() {
      await proxy.close();
      await database.drop();
    },
  };
}

async function makeFault(
  kind: FaultKind,
  database: TargetDatabase,
  set: (fault: 'none' | 'down' | 'slow' | 'half') => void,
): Promise<() => Promise<void>> {
  if (kind === 'missing') {
    await database.query('ALTER TABLE newsletter RENAME TO gone');
    return async () => void (await database.query('ALTER TABLE gone RENAME TO newsletter'));
  }
  if (kind === 'silent') {
    await database.query(`CREATE FUNCTION lie() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`);
    for (const table of names) {
      await database.query(
        `CREATE TRIGGER lie BEFORE DELETE OR UPDATE ON ${table} FOR EACH ROW EXECUTE FUNCTION lie()`,
      );
    }
    return async () => void (await database.query('DROP FUNCTION lie CASCADE'));
  }
  set(kind);
  return async () => set('none');
}

describeWithPostgres('the PostgreSQL target', () => {
  describeTarget(
    'postgres',
    {
      open,
      identifiers: ['tenantId', 'customerId', 'email'],
      composite: ['tenantId', 'customerId'],
      faults: ['down', 'slow', 'half', 'silent', 'missing'],
    },
    { describe, it },
  );
});
