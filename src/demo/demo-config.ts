/** The demo's directory: keys, configuration, and the package under its own name, so that the configuration reads like anybody's. */
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generateKeyFiles } from '../keys/generate-key-files.js';
import { ANALYTICAL_FILE } from './duckdb/build-analytical.js';
import type { Drivers } from './drivers.js';
import { SEARCH_FILE } from './sqlite/build-search.js';
import { KEY_FILE_NAMES, writeKeyFiles } from '../keys/write-key-files.js';

/** The targets whose driver is there, each with the line that imports it and the one that declares it. */
function configOf(drivers: Drivers): string {
  const imports = [
    `import { defineConfig } from 'expunge';`,
    ...(drivers.duckdb ? [`import { duckdb } from 'expunge/duckdb';`] : []),
    `import { files } from 'expunge/files';`,
    `import { pglite } from 'expunge/pglite';`,
    ...(drivers.sqlite ? [`import { sqlite } from 'expunge/sqlite';`] : []),
  ];
  return `${imports.join('\n')}

export default defineConfig({
  embedded: { directory: new URL('.expunge', import.meta.url).pathname },
  keys: { file: new URL('keys/${KEY_FILE_NAMES.worker}', import.meta.url).pathname },
  subject: { key: 'customerId', identifiers: { customerId: { opaque: true } } },
  targets: {
    operational: pglite({
      directory: new URL('shop', import.meta.url).pathname,
      tables: {
        customer: { key: { customer_id: 'customerId' }, action: 'delete' },
        session: { key: { customer_id: 'customerId' }, action: 'delete', revoke: true },
        invoice: { key: { customer_id: 'customerId' }, action: 'delete' },
        invoice_line: { through: 'invoice', action: 'delete' },
      },
    }),
${drivers.duckdb ? ANALYTICAL : ''}${drivers.sqlite ? SEARCH : ''}    'generated-artifacts': files({
      root: new URL('artifacts', import.meta.url).pathname,
      paths: ['customers/{customerId}/', 'invoices/{invoice}.pdf'],
      locators: { invoice: { target: 'operational', place: 'invoice', column: 'invoice_id' } },
    }),
  },
});
`;
}

const ANALYTICAL = `    analytical: duckdb({
      file: new URL('${ANALYTICAL_FILE}', import.meta.url).pathname,
      tables: { page_view: { key: { customer_id: 'customerId' }, action: 'delete' } },
    }),
`;
const SEARCH = `    search: sqlite({
      file: new URL('${SEARCH_FILE}', import.meta.url).pathname,
      tables: { customer_search: { key: { customer_id: 'customerId' }, action: 'delete' } },
    }),
`;

/** @returns the configuration file. */
export async function writeDemoConfig(directory: string, drivers: Drivers): Promise<string> {
  await writeKeyFiles(join(directory, 'keys'), generateKeyFiles());
  await mkdir(join(directory, 'node_modules'), { recursive: true });
  await symlink(packageRoot(), join(directory, 'node_modules', 'expunge'), 'dir');
  const file = join(directory, 'expunge.config.mjs');
  await writeFile(file, configOf(drivers));
  return file;
}

function packageRoot(): string {
  return resolve(dirname(fileURLToPath(import.meta.url)), '..', '..');
}
