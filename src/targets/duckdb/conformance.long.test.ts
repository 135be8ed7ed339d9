import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { z } from 'zod';
import { FaultyStore } from '../../../test/support/faulty-store.js';
import { describeTarget, type TargetHarness } from '../../testing/index.js';
import { parseRules, tablesSchema } from '../tables/declaration.js';
import { StoreTarget } from '../tables/store/store-target.js';
import type { TargetSubject } from '../target.js';
import { connect } from './connection.js';
import { DuckDBStore } from './duckdb-store.js';

const schema = [
  'CREATE TABLE visit (no INTEGER PRIMARY KEY, tenant VARCHAR COLLATE NOCASE, id VARCHAR COLLATE NOCASE, note VARCHAR)',
  'CREATE TABLE page (visit_no INTEGER REFERENCES visit (no), note VARCHAR)',
  'CREATE TABLE click (visit_no BIGINT, note VARCHAR)',
  'CREATE SCHEMA marts',
  'CREATE TABLE marts."Order Fact" (tenant VARCHAR, id VARCHAR, note VARCHAR)',
  'CREATE TABLE newsletter (email VARCHAR, note VARCHAR)',
];

/** In memory where the machine has that. */
const fast = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

const key = { tenant: 'tenantId', id: 'customerId' };
const rules = {
  tables: {
    visit: { key, action: 'delete' },
    page: { through: 'visit', action: 'delete' },
    click: { through: { table: 'visit', on: { visit_no: 'no' } }, action: 'delete' },
    newsletter: { key: { email: 'email' }, action: 'anonymize', set: { email: null, note: '' } },
  },
  schemas: { marts: { 'Order Fact': { key, action: 'delete' } } },
} as const;

const names = ['visit', 'page', 'click', 'newsletter', 'marts.Order Fact'];
const own = (alias: string): string => `encode(${alias}.tenant) = encode($1) AND encode(${alias}.id) = encode($2)`;
const rowsOf = [
  `SELECT concat(t.no, t.tenant, t.id, t.note) AS row FROM visit t WHERE ${own('t')}`,
  `SELECT concat(t.visit_no, t.note) FROM page t JOIN visit v ON v.no = t.visit_no WHERE ${own('v')}`,
  `SELECT concat('c', t.visit_no, t.note) FROM click t JOIN visit v ON v.no = t.visit_no WHERE ${own('v')}`,
  `SELECT concat(t.tenant, t.id, t.note) FROM marts."Order Fact" t WHERE ${own('t')}`,
  'SELECT concat(email, note) FROM newsletter WHERE email = $3',
].join(' UNION ALL ');

function valuesOf({ identifiers }: TargetSubject): string[] {
  return [identifiers.tenantId!, identifiers.customerId!, identifiers.email!];
}

async function open(): Promise<TargetHarness> {
  const directory = await mkdtemp(join(fast, 'expunge-duckdb-'));
  const file = join(directory, 'warehouse.duckdb');
  await (
    await import('@duckdb/node-api')
  ).DuckDBInstance.create(file).then((instance) => {
    instance.closeSync();
  });
  // The application and the target are one process here, which opens the file once.
  let application = await connect(file);
  // A thread for each statement costs more than these small tables do.
  await application.query('SET GLOBAL threads = 1');
  for (const statement of schema) await application.query(statement);
  const faulty = new FaultyStore();
  const declared = parseRules(
    {
      kind: 'duckdb',
      schema: z.object({ tables: tablesSchema, schemas: z.record(z.string(), tablesSchema) }),
      defaultSchema: 'main',
    },
    rules,
  );
  const reopen = () => new StoreTarget('analytical', new DuckDBStore(file, faulty.wrap(connect)), declared);
  let visits = 0;
  return {
    target: reopen(),
    reopen: async () => reopen(),
    async plant(subject, copies, secret) {
      const [tenant, id, email] = valuesOf(subject) as [string, string, string];
      await application.query('BEGIN TRANSACTION');
      await application.query('INSERT INTO visit SELECT $4 + i, $1, $2, $3 FROM range($5) AS r (i)', [
        tenant,
        id,
        secret,
        visits,
        copies,
      ]);
      for (const child of ['page', 'click'])
        await application.query(`INSERT INTO ${child} SELECT $1 + i, $2 FROM range($3) AS r (i)`, [
          visits,
          secret,
          copies,
        ]);
      await application.query('INSERT INTO marts."Order Fact" SELECT $1, $2, $3 FROM range($4)', [
        tenant,
        id,
        secret,
        copies,
      ]);
      await application.query('INSERT INTO newsletter SELECT $1, $2 FROM range($3)', [email, secret, copies]);
      await application.query('COMMIT');
      visits += copies;
      return names.map((place) => ({ place, copies }));
    },
    async fingerprint(subject) {
      const rows = await application.query(rowsOf, valuesOf(subject));
      const texts = rows.map(({ row }) => String(row)).sort();
      return createHash('sha256').update(JSON.stringify(texts)).digest('hex');
    },
    async fault(kind) {
      if (kind === 'slow' || kind === 'half' || kind === 'silent') return faulty.break(kind);
      if (kind === 'down') {
        application.close();
        await rename(file, `${file}.away`);
        return async () => {
          await rename(`${file}.away`, file);
          application = await connect(file);
        };
      }
      await application.query('ALTER TABLE newsletter RENAME TO gone');
      return async () => void (await application.query('ALTER TABLE gone RENAME TO newsletter'));
    },
    locate: {
      queries: { notes: { place: 'marts.Order Fact', column: 'note' } },
      async plant(subject, count) {
        const notes = Array.from({ length: count }, (_, n) => `${subject.identifiers.customerId} file ${n}`);
        for (const note of notes)
          await application.query('INSERT INTO marts."Order Fact" VALUES ($1, $2, $3)', [
            ...valuesOf(subject).slice(0, 2),
            note,
          ]);
        return { notes };
      },
    },
    async close() {
      application.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

describeTarget(
  'duckdb',
  {
    open,
    identifiers: ['tenantId', 'customerId', 'email'],
    composite: ['tenantId', 'customerId'],
    faults: ['down', 'slow', 'half', 'silent', 'missing'],
    exclusive: true,
  },
  { describe, it },
);
