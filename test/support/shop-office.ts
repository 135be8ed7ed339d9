/** A directory with key files and a configuration of the small shop, and the built command line run in it. */
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeKeyFiles } from '../../src/keys/write-key-files.js';
import { type Ended, type Started, type StartOptions, startProcess } from './cli.js';
import type { SmallShop } from './small-shop.js';

const repository = fileURLToPath(new URL('../..', import.meta.url));

/** The tables of the small shop, as source text. */
export const shopTablesText = `
  customer: { key: { customer_id: 'customerId' }, action: 'delete' },
  session: { key: { customer_id: 'customerId' }, action: 'delete', revoke: true },
  invoice: { key: { customer_id: 'customerId' }, action: 'delete' },
  invoice_line: { through: 'invoice', action: 'delete' },
  visit: { key: { customer_id: 'customerId' }, action: 'delete' },
  search_log: { through: { table: 'visit', on: { visit_no: 'no' } }, action: 'delete' },`;

/** Parts of a configuration that a test writes differently, as source text. */
export interface ConfigText {
  readonly tables?: string;
  readonly shopUrl?: string;
  /** Targets besides `operational`. */
  readonly targets?: string;
  /** Further fields of the configuration. */
  readonly fields?: string;
  readonly keys?: string;
}

export interface ShopOffice {
  readonly directory: string;
  start(args: readonly string[], options?: StartOptions): Started;
  /** Runs the command line to its end. */
  expunge(args: readonly string[], options?: StartOptions): Promise<Ended>;
  /** Runs it, expects exit code 0 and reads what it printed. */
  json<T>(args: readonly string[], options?: StartOptions): Promise<T>;
  /** Writes a configuration and answers its file's name, for `--config`. */
  configure(name: string, text?: ConfigText): Promise<string>;
  close(): Promise<void>;
}

export async function openShopOffice(shop: SmallShop): Promise<ShopOffice> {
  const directory = await mkdtemp(join(tmpdir(), 'expunge-office-'));
  await mkdir(join(directory, 'node_modules'));
  await symlink(repository, join(directory, 'node_modules', 'expunge'), 'dir');
  await writeKeyFiles(join(directory, 'keys'), shop.keys);
  const env = { EXPUNGE_DATABASE_URL: shop.ownUrl, SHOP_URL: shop.url };
  const start = (args: readonly string[], options: StartOptions = {}): Started =>
    startProcess(args, { cwd: directory, ...options, env: { ...env, ...options.env } });
  const office: ShopOffice = {
    directory,
    start,
    expunge: (args, options) => start(args, options).ended,
    async json<T>(args: readonly string[], options?: StartOptions) {
      const { code, stdout, stderr } = await start(args, options).ended;
      if (code !== 0) throw new Error(`expunge ${args.join(' ')} ended with ${code}: ${stderr}`);
      return JSON.parse(stdout) as T;
    },
    async configure(name, text) {
      await writeFile(join(directory, name), configText(text));
      return name;
    },
    close: () => rm(directory, { recursive: true, force: true }),
  };
  await office.configure('expunge.config.mjs');
  return office;
}

function configText({ tables, shopUrl, targets, fields, keys }: ConfigText = {}): string {
  return `import { defineConfig } from 'expunge';
    import { files } from 'expunge/files';
    import { postgres } from 'expunge/postgres';
    export default defineConfig({
      database: process.env.EXPUNGE_DATABASE_URL,
      keys: { file: ${JSON.stringify(keys ?? 'keys/worker.keys.json')} },
      subject: { key: 'customerId', identifiers: { customerId: { opaque: true }, email: { normalise: 'email' } } },
      targets: {
        operational: postgres({
          url: ${shopUrl === undefined ? 'process.env.SHOP_URL' : JSON.stringify(shopUrl)},
          tables: { ${tables ?? shopTablesText} },
        }),
        ${targets ?? ''}
      },
      ${fields ?? ''}
    });`;
}
