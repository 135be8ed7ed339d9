/** One person, two real stores: gate to seal, on PostgreSQL. */
import { mkdtemp, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Client } from '../src/client/client.js';
import { openDatabase } from '../src/client/open-database.js';
import { migrateDatabase } from '../src/client/open-database.js';
import { defineConfig } from '../src/config/define-config.js';
import { generateKeyFiles } from '../src/keys/generate-key-files.js';
import { parseKeyRing } from '../src/keys/key-ring.js';
import { verifyReceipts } from '../src/evidence/verify-receipts.js';
import { createLog } from '../src/observe/log.js';
import { files } from '../src/targets/files/index.js';
import { postgres } from '../src/targets/postgres/index.js';
import { createTestDatabase, describeWithPostgres, type TestDatabase } from './support/postgres.js';

describeWithPostgres('an erasure', () => {
  let own: TestDatabase;
  let shop: TestDatabase;
  let root: string;

  beforeEach(async () => {
    own = await createTestDatabase();
    shop = await createTestDatabase();
    root = await mkdtemp(join(tmpdir(), 'expunge-files-'));
    const db = new pg.Client(shop.url);
    await db.connect();
    await db.query(`
      CREATE TABLE customer (customer_id int PRIMARY KEY, name text, email text);
      CREATE TABLE session (id serial PRIMARY KEY, customer_id int);
      CREATE TABLE invoice (invoice_id int PRIMARY KEY, customer_id int REFERENCES customer, total int);
      CREATE TABLE invoice_line (line_id int PRIMARY KEY, invoice_id int REFERENCES invoice, what text);
      INSERT INTO customer SELECT i, 'name ' || i, 'c' || i || '@example.com' FROM generate_series(1, 20) i;
      INSERT INTO session (customer_id) SELECT i FROM generate_series(1, 20) i;
      INSERT INTO invoice SELECT i, 1 + i % 20, i FROM generate_series(1, 100) i;
      INSERT INTO invoice_line SELECT i, 1 + i % 100, 'x' FROM generate_series(1, 300) i;`);
    for (let i = 1; i <= 100; i += 1) {
      await mkdir(join(root, 'invoices'), { recursive: true });
      await writeFile(join(root, 'invoices', `${i}.pdf`), `invoice ${i}`);
    }
    await db.end();
  });
  afterEach(async () => {
    await own.drop();
    await shop.drop();
    await rm(root, { recursive: true });
  });

  it('deletes one customer and nothing else', async () => {
    const keys = generateKeyFiles();
    const config = defineConfig({
      database: own.url,
      subject: { key: 'customerId', identifiers: { customerId: { opaque: true } } },
      targets: {
        operational: postgres({
          url: shop.url,
          tables: {
            customer: { key: { customer_id: 'customerId' }, action: 'delete' },
            session: { key: { customer_id: 'customerId' }, action: 'delete', revoke: true },
            invoice: { key: { customer_id: 'customerId' }, action: 'delete' },
            invoice_line: { through: 'invoice', action: 'delete' },
          },
        }),
        artifacts: files({
          root,
          paths: ['invoices/{invoice}.pdf'],
          locators: { invoice: { target: 'operational', place: 'invoice', column: 'invoice_id' } },
        }),
      },
    });
    await migrateDatabase(config.database);
    const database = await openDatabase(config.database);
    const client = new Client(config, database, parseKeyRing(keys.worker, 'worker'), createLog());
    const submitted = await client.submit({ customerId: '5' }, { requestedBy: 'operator-a' });
    console.log(JSON.stringify(submitted.inventory, null, 1));
    await client.requests.approve({ requestId: submitted.id, approvedBy: 'operator-b', inventoryDigest: submitted.inventory_digest });
    const end = await client.requests.run(submitted.id, { executorId: 'w1', signal: new AbortController().signal });
    const shown = await client.requests.show(submitted.id);
    console.log(end, shown.stages.map((s) => [s.stage, s.target_community_id, s.status, JSON.stringify(s.metadata_json.result)?.slice(0, 300)]));
    { const c = new pg.Client(own.url); await c.connect(); console.log((await c.query("select part, key_id, length(sealed) from expunge.deletion_sealed_identifiers")).rows); await c.end(); }
    expect(end).toEqual({ kind: 'ended', status: 'completed' });
    expect((await readdir(join(root, 'invoices'))).length).toBe(95);
    const exported = await client.exportReceipts(submitted.id);
    const verified = await verifyReceipts(exported, keys.verification);
    console.log(JSON.stringify(verified), await client.get(submitted.id), await client.status({ customerId: '5' }));
    expect(verified.verified).toBe(true);
    await client.close();
  });
});
