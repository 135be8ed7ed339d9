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
import { type Customers, openSmallShop, type SmallShop } from './small-shop.js';
import { twoStores, type Where } from './two-stores.mjs';

export interface TwoStores {
  readonly shop: SmallShop;
  readonly database: Database;
  readonly client: Client;
  readonly root: string;
  /** What `twoStores` needs to declare them in another process. */
  readonly where: Where;
  /** Submits and approves the erasure of one customer. */
  approved(customer: number): Promise<string>;
  /** Every file's path. */
  fileNames(): Promise<readonly string[]>;
  /** Every file's path and checksum. */
  files(): Promise<readonly string[]>;
  close(): Promise<void>;
}

export interface TwoStoresOptions {
  /** Another way to the shop, such as through a proxy. */
  readonly shopUrl?: (direct: string) => Promise<string>;
  /** Whether the files come first in the order of the targets. */
  readonly filesFirst?: boolean;
  /** Whether some files are named by what only the database knows; they are by default. */
  readonly withLocators?: boolean;
  /** 1 to 9 by default. */
  readonly customers?: Customers;
  /** How long the shop's database may take for a statement, in milliseconds; 5,000 by default. */
  readonly statementMs?: number;
  /** Whether the end swaps the reference for a receipt token; not by default. */
  readonly token?: boolean;
}

export async function openTwoStores(options: TwoStoresOptions = {}): Promise<TwoStores> {
  const { filesFirst = false, withLocators = true, statementMs = 5_000, token = false } = options;
  const { customers = { first: 1, count: 9 } } = options;
  const shop = await openSmallShop(customers);
  const root = await mkdtemp(join(tmpdir(), 'expunge-two-stores-'));
  await writeFiles(root, customers);
  const shopUrl = (await options.shopUrl?.(shop.url)) ?? shop.url;
  const where = { ownUrl: shop.ownUrl, shopUrl, root, filesFirst, withLocators, statementMs, token };
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
    fileNames: async () => (await namesIn(root)).map((path) => path.slice(root.length)).sort(),
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

async function writeFiles(root: string, { first, count }: Customers): Promise<void> {
  await mkdir(join(root, 'invoices'), { recursive: true });
  for (let customer = first; customer < first + count; customer += 1) {
    await mkdir(join(root, 'customers', String(customer)), { recursive: true });
    await writeFile(join(root, 'customers', String(customer), 'export.json'), `export ${customer}`);
  }
  for (let invoice = 1; invoice <= 2 * count; invoice += 1) {
    await writeFile(join(root, 'invoices', `${invoice}.pdf`), `invoice ${invoice}`);
  }
}

async function namesIn(root: string): Promise<readonly string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
}

async function checksums(root: string): Promise<readonly string[]> {
  const sums = (await namesIn(root)).map(async (path) => {
    const sum = createHash('sha256').update(await readFile(path));
    return `${path.slice(root.length)} ${sum.digest('hex')}`;
  });
  return (await Promise.all(sums)).sort();
}
