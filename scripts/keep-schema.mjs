/**
 * Keeps a dump of a schema, with a few rows, in test/fixtures/schemas, for the test that brings every kept schema to the
 * newest one. Part of every release that brings a migration:
 *
 *   npm run build && node scripts/keep-schema.mjs [NUMBER]
 *
 * NUMBER is the last migration in it; by default the newest. Needs pg_dump, and a server: the one of
 * `EXPUNGE_TEST_POSTGRES_URL`, or postgres://postgres@127.0.0.1:5432/postgres. A kept schema that was released never
 * changes again: make it again only as long as nobody has it.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, URL } from 'node:url';
import pg from 'pg';
import { migrate } from '../dist/storage/migrations/migrate.js';
import { migrations } from '../dist/storage/migrations/migrations.js';
import { openPostgres } from '../dist/storage/postgres/postgres-database.js';

const server = process.env.EXPUNGE_TEST_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres';
const number = Number(process.argv[2] ?? migrations().length);
if (!migrations().some((migration) => migration.number === number)) throw new Error(`there is no migration ${number}`);
const name = `${String(number).padStart(4, '0')}.sql`;
const directory = join(dirname(fileURLToPath(import.meta.url)), '..', 'test', 'fixtures', 'schemas');

/** A request that has come half-way. */
const request = '01900000-0000-7000-8000-000000000001';
const digest = 'a'.repeat(64);
const rows = `
  INSERT INTO expunge.entity_deletion_requests (id, workflow, workflow_version, target, inventory_digest, status, requested_by)
  VALUES ('${request}', 'user-deletion', 1, 'demo:kept', '${digest}', 'running', 'operator-a');
  INSERT INTO expunge.entity_deletion_inventories (request_id, revision, inventory, inventory_digest)
  VALUES ('${request}', 1, '{"version": 1}', '${digest}');
  INSERT INTO expunge.entity_deletion_approvals (id, request_id, inventory_digest, approved_by)
  VALUES ('01900000-0000-7000-8000-000000000002', '${request}', '${digest}', 'operator-b');
  INSERT INTO expunge.entity_deletion_stage_history (id, request_id, stage, status, is_current, metadata_json)
  VALUES ('01900000-0000-7000-8000-000000000003', '${request}', 'gate_user', 'completed', false, '{"result": {}}'),
         ('01900000-0000-7000-8000-000000000004', '${request}', 'purge_db', 'pending', true, '{"inputs": {}}');
  INSERT INTO expunge.deletion_orders (id, request_id, kind, ordered_by, reason)
  VALUES ('01900000-0000-7000-8000-000000000005', '${request}', 'hold', 'operator-a', 'audit');
  INSERT INTO expunge.deletion_sealed_identifiers (request_id, part, key_id, sealed)
  VALUES ('${request}', 'identifiers', 'k1', 'sealed');
  INSERT INTO expunge.deletion_receipts (id, request_id, sequence, receipt, receipt_hash)
  VALUES ('01900000-0000-7000-8000-000000000006', '${request}', 1, 'receipt', '${'b'.repeat(64)}');
  INSERT INTO expunge.deletion_events (request_id, event) VALUES ('${request}', 'submitted');`;
/** Rows of tables that later migrations brought, by the number of the migration. */
const laterRows = new Map([
  [
    2,
    `INSERT INTO expunge.deletion_tombstones (reference, state, generation, deleted_generation, group_id)
     VALUES ('reference', 'in_progress', 1, 1, '01900000-0000-7000-8000-000000000007');`,
  ],
  [
    3,
    `INSERT INTO expunge.deletion_batches (id, workflow, workflow_version, requested_by, submit_token, last_position, members, left_out)
     VALUES ('01900000-0000-7000-8000-000000000008', 'erasure', 1, 'operator-a', 'token', 3, 1, 1);
     INSERT INTO expunge.entity_deletion_requests
            (id, workflow, workflow_version, subject_reference, inventory_digest, status, requested_by, batch_id, batch_position)
     VALUES ('01900000-0000-7000-8000-000000000009', 'erasure', 1, 'ref1.r1.member', '${digest}', 'submitted', 'operator-a',
             '01900000-0000-7000-8000-000000000008', 2);
     INSERT INTO expunge.deletion_batch_omissions (batch_id, position, request_id)
     VALUES ('01900000-0000-7000-8000-000000000008', 3, '01900000-0000-7000-8000-000000000009');`,
  ],
  [
    4,
    `INSERT INTO expunge.deletion_standing_approvals
            (id, workflow, workflow_version, plans, rows_per_request, drift, requests_per_day, expires_at, proposed_by)
     VALUES ('01900000-0000-7000-8000-00000000000a', 'erasure', 1, '{"main": {}}', 10, 1, 5, '2999-01-01', 'operator-a');
     INSERT INTO expunge.deletion_standing_approval_decisions (id, standing_approval_id, decision, decided_by)
     VALUES ('01900000-0000-7000-8000-00000000000b', '01900000-0000-7000-8000-00000000000a', 'approve', 'operator-b');`,
  ],
]);

const scratch = `expunge_schema_${randomBytes(6).toString('hex')}`;
await onServer(`CREATE DATABASE ${scratch} TEMPLATE template0 ENCODING 'UTF8'`);
try {
  const url = new URL(server);
  url.pathname = scratch;
  await fill(url.href);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, name), dump(url.href));
  console.log(`test/fixtures/schemas/${name}`);
} finally {
  await onServer(`DROP DATABASE ${scratch} WITH (FORCE)`);
}

/** @param {string} url */
async function fill(url) {
  const database = openPostgres({ url });
  try {
    await migrate(database, number);
  } finally {
    await database.close();
  }
  const later = [...laterRows].filter(([since]) => since <= number).map(([, text]) => text);
  await onServer([rows, ...later].join('\n'), url);
}

/** What any PostgreSQL since 15 reads: without psql's own commands, owners, and settings that only newer ones know.
 * @param {string} url
 */
function dump(url) {
  const arguments_ = ['--schema=expunge', '--no-owner', '--no-privileges', '--inserts', `--dbname=${url}`];
  const text = execFileSync('pg_dump', arguments_, { encoding: 'utf8' });
  const lines = text.split('\n').filter((line) => !/^(--|\\|SET transaction_timeout)/.test(line));
  return `-- Expunge, schema version ${number}\n${lines.join('\n').replace(/\n{2,}/g, '\n\n')}`;
}

/**
 * @param {string} statements
 * @param {string} url
 */
async function onServer(statements, url = server) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statements);
  } finally {
    await client.end();
  }
}
