/** A small shop with generated files beside it, and an Expunge that knows both: what tests of interruptions start from. */
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '../../src/client/client.js';
import { openDatabase } from '../../src/client/open-database.js';
import { defineConfig } from '../../src/config/define-config.js';
import { parseKeyRing } from '../../src/keys/key-ring.js';
import { silentLog } from '../../src/observe/log.js';
import type { Database } from '../../src/storage/database.js';
import { files } from '../../src/targets/files/index.js';
import { postgres } from '../../src/targets/postgres/index.js';
import { openSmallShop, type SmallShop } from './small-shop.js';
import { twoStores } from './two-stores.mjs';

export interface TwoStores {
  readonly shop: SmallShop;
  readonly database: Database;
  readonly client: Client;
  readonly root: string;
  /** What `twoStores` needs to declare them in another process. */
  readonly where: object;
  /** Submits and approves the erasure of one customer. */
  approved(customer: number): Promise<string>;
  /** Every file's path and checksum. */
  files(): Promise<readonly string[]>;
  close(): Promise<void>;
}

const CUSTOMERS = 9;
const INVOICES = 18;

export interface TwoStoresOptions {
  /** Another way to the shop, such as through a proxy. */
  readonly shopUrl?: (direct: string) => Promise<string>;
  /** Whether the files come first in the order of the targets. */
  readonly filesFirst?: boolean;
  /** Whether some files are named by what only the database knows; they are by default. */
  readonly withLocators?: boolean;
}

export async function openTwoStores(options: TwoStoresOptions = {}): Promise<TwoStores> {
  const shop = await openSmallShop();
  const root = await mkdtemp(join(tmpdir(), 'expunge-two-stores-'));
  await writeFiles(root);
  const { filesFirst = false, withLocators = true } = options;
  const shopUrl = (await options.shopUrl?.(shop.url)) ?? shop.url;
  const where = { ownUrl: shop.ownUrl, shopUrl, root, filesFirst, withLocators };
  const config = twoStores({ defineConfig, postgres, files }, where);
  const { client, database } = await open(config, shop);
  return {
    shop,
    database,
    client,
    root,
    where,
    approved: async (customer) => {
      const subject = { customerId: String(customer) };
      const { id, inventory_digest } = await client.submit(subject, { requestedBy: 'anna' });
      await client.requests.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest });
      return id;
    },
    files: () => checksums(root),
    close: async () => {
      await client.close();
      await shop.close();
      await rm(root, { recursive: true, force: true });
    },
  };
}

async function open(config: ConstructorParameters<typeof Client>[0], shop: SmallShop) {
  const database = await openDatabase(config.database);
  return { database, client: new Client(config, database, parseKeyRing(shop.keys.worker, 'worker'), silentLog) };
}

async function writeFiles(root: string): Promise<void> {
  await mkdir(join(root, 'invoices'), { recursive: true });
  for (let customer = 1; customer <= CUSTOMERS; customer += 1) {
    await mkdir(join(root, 'customers', String(customer)), { recursive: true });
    await writeFile(join(root, 'customers', String(customer), 'export.json'), `export ${customer}`);
  }
  for (let invoice = 1; invoice <= INVOICES; invoice += 1) {
    await writeFile(join(root, 'invoices', `${invoice}.pdf`), `invoice ${invoice}`);
  }
}

async function checksums(root: string): Promise<readonly string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const found = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  const sums = found.map(async (path) => {
    const sum = createHash('sha256').update(await readFile(path));
    return `${path.slice(root.length)} ${sum.digest('hex')}`;
  });
  return (await Promise.all(sums)).sort();
}
