/** `expunge submit --from`: every line checked, counted in a target, sealed, and recorded. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { subjectFile } from '../../dist/cli/subject-file.js';
import { Client } from '../../dist/client/client.js';
import { resolveConfig } from '../../dist/config/resolve-config.js';
import { generateKeyFiles } from '../../dist/keys/generate-key-files.js';
import { loadKeyRing } from '../../dist/keys/key-ring.js';
import { KEY_FILE_NAMES, writeKeyFiles } from '../../dist/keys/write-key-files.js';
import { createLog } from '../../dist/observe/log.js';
import { migrate } from '../../dist/storage/migrations/migrate.js';
import { openPostgres } from '../../dist/storage/postgres/postgres-database.js';
import { postgres } from '../../dist/targets/postgres/index.js';
import { buildShop, DECLARATION } from '../erase/shop.mjs';
import { contestant } from '../measure/contestant.mjs';
import { execute } from '../measure/server.mjs';

await contestant({
  async prepare({ url, subjects, customers }) {
    const directory = await mkdtemp(path.join(tmpdir(), 'expunge-bench-'));
    const keys = path.join(directory, 'keys');
    await writeKeyFiles(keys, generateKeyFiles());
    const file = path.join(directory, 'subjects.csv');
    const lines = Array.from({ length: subjects }, (_one, index) => `${index + 1}\n`);
    await writeFile(file, `customerId\n${lines.join('')}`);
    await buildShop(url, customers);
    let statements = 0;
    const database = openPostgres({ url, onStatement: () => (statements += 1) });
    await migrate(database);
    const config = resolveConfig({
      database: url,
      keys: { file: path.join(keys, KEY_FILE_NAMES.client) },
      subject: { key: 'customerId', identifiers: { customerId: { opaque: true } } },
      targets: { operational: postgres({ url, tables: DECLARATION }) },
    });
    const client = new Client(config, database, await loadKeyRing(config.keys.file), createLog());
    return { client, file, directory, statements: () => statements };
  },
  async run({ client, file }, { subjects }) {
    await client.submitLines(subjectFile(file), { requestedBy: 'operator-a', reasonCode: 'ACCOUNTS_CLOSED' });
    return subjects;
  },
  async check(_context, { url, subjects }) {
    const [{ count }] = await execute(
      url,
      `SELECT count(*)::integer AS count FROM expunge.entity_deletion_requests r
         JOIN expunge.entity_deletion_inventories i ON i.request_id = r.id
         JOIN expunge.deletion_sealed_identifiers s ON s.request_id = r.id WHERE r.status = 'submitted'`,
    );
    if (count !== subjects) throw new Error(`${count} of ${subjects} requests are recorded`);
  },
  async close({ client, directory }) {
    await client.close();
    await rm(directory, { recursive: true });
  },
});
