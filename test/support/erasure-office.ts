/** Clients on the small shop with configurations of a test's own, and the few moves that tests of whole erasures are made of. */
import { Client } from '../../src/client/client.js';
import { defineConfig } from '../../src/config/define-config.js';
import type { RunEnd } from '../../src/engine/advance.js';
import type { KeyRing } from '../../src/keys/key-ring.js';
import { parseKeyRing } from '../../src/keys/key-ring.js';
import { isExpungeError } from '../../src/observe/expunge-error.js';
import type { StageRow } from '../../src/requests/request.js';
import type { Database } from '../../src/storage/database.js';
import { openPostgres } from '../../src/storage/postgres/postgres-database.js';
import { postgres } from '../../src/targets/postgres/index.js';
import type { TargetDeclaration } from '../../src/targets/target.js';
import { type LogLine, readableLog } from './record.js';
import { openSmallShop, type SmallShop } from './small-shop.js';

export interface OfficeConfig {
  readonly targets?: Readonly<Record<string, TargetDeclaration>>;
  readonly bounds?: { readonly rows?: number; readonly drift?: number; readonly batch?: number };
  readonly protected?: { readonly customerId?: readonly string[] };
  readonly approvals?: { readonly required?: number; readonly expireAfter?: string };
  readonly settle?: { readonly after: string };
  readonly receipts?: { readonly token: boolean };
  readonly tombstones?: { readonly keep: string };
  /** Rows in one slice of an erase; the product's default where absent. */
  readonly sliceRows?: number;
}

/** A client, and what can be seen of it from outside. */
export interface Desk {
  readonly client: Client;
  readonly database: Database;
  readonly lines: readonly LogLine[];
  /** Statements on Expunge's own database, without renewals of leases; to be emptied at will. */
  readonly statements: string[];
  /** Submits a customer's erasure by anna. */
  submitted(customer: number | string): Promise<{ readonly id: string; readonly inventory_digest: string }>;
  /** Submits it, and approves it by ben. */
  approved(customer: number | string): Promise<string>;
  /** Approves the present revision. */
  approve(id: string, by?: string): Promise<unknown>;
  /** Runs it as far as it goes, or for so many handlers. */
  run(id: string, budget?: number): Promise<RunEnd>;
  /** `gate completed`, `erase operational pending *`: every stage in order, with a star on the current one. */
  path(id: string): Promise<readonly string[]>;
  stages(id: string): Promise<readonly StageRow[]>;
  status(id: string): Promise<string>;
}

export interface Office extends SmallShop {
  /** Another client. All of them are closed with the shop. */
  desk(config?: OfficeConfig, ring?: KeyRing): Desk;
}

/** One table without relations of its own, so that a test sees what it is about. */
export const visits = (url: string, name = 'visit') =>
  postgres({ url, tables: { [name]: { key: { customer_id: 'customerId' }, action: 'delete' } } });

/** The shop's rows of one customer in four tables, of which two hang on the others. */
export const operational = (url: string) =>
  postgres({
    url,
    timeouts: { connect: 2_000, statement: 5_000 },
    tables: {
      invoice: { key: { customer_id: 'customerId' }, action: 'delete' },
      invoice_line: { through: 'invoice', action: 'delete' },
      visit: { key: { customer_id: 'customerId' }, action: 'delete' },
      search_log: { through: { table: 'visit', on: { visit_no: 'no' } }, action: 'delete' },
    },
  });

export async function openOffice(): Promise<Office> {
  const shop = await openSmallShop();
  const desks: Client[] = [];
  return {
    ...shop,
    desk(config = {}, ring = parseKeyRing(shop.keys.worker, 'worker')) {
      const desk = openDesk(shop, config, ring);
      desks.push(desk.client);
      return desk;
    },
    async close() {
      await Promise.all(desks.map((client) => client.close()));
      await shop.close();
    },
  };
}

function openDesk(shop: SmallShop, { sliceRows, ...config }: OfficeConfig, ring: KeyRing): Desk {
  const { log, lines } = readableLog();
  const statements: string[] = [];
  const counted = openPostgres({ url: shop.ownUrl, onStatement: (text) => statements.push(text) });
  // Renewals of leases come with time, not with work: they are not counted.
  const quiet = openPostgres({ url: shop.ownUrl });
  const database: Database = {
    ...counted,
    aside: quiet.aside,
    close: async () => {
      await Promise.all([counted.close(), quiet.close()]);
    },
  };
  const resolved = defineConfig({
    ...config,
    database: shop.ownUrl,
    subject: { key: 'customerId', identifiers: { customerId: { opaque: true } } },
    targets: config.targets ?? { operational: operational(shop.url) },
  });
  const client = new Client(resolved, database, ring, log, sliceRows);
  const { requests } = client;
  const desk: Desk = {
    client,
    database,
    lines,
    statements,
    submitted: (customer) => client.submit({ customerId: String(customer) }, { requestedBy: 'anna' }),
    async approved(customer) {
      const { id } = await desk.submitted(customer);
      await desk.approve(id);
      return id;
    },
    async approve(id, by = 'ben') {
      const { request } = await requests.show(id);
      const inventoryDigest = request.inventory_digest ?? '';
      return requests.approve({ requestId: id, approvedBy: by, inventoryDigest });
    },
    run: (id, budget) =>
      requests.run(id, {
        executorId: 'worker-a',
        signal: new AbortController().signal,
        ...(budget === undefined ? {} : { budget }),
      }),
    stages: async (id) => (await requests.show(id)).stages,
    path: async (id) => (await desk.stages(id)).map(inWords),
    status: async (id) => (await requests.show(id)).request.status,
  };
  return desk;
}

function inWords({ stage, target_community_id, status, is_current, metadata_json }: StageRow): string {
  const state = metadata_json.result?.['state'];
  const outcome = typeof state === 'string' && state !== 'done' ? state : status;
  return [stage, target_community_id, outcome, is_current ? '*' : null].filter((word) => word !== null).join(' ');
}

/** The code that something is refused with. */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  const error: unknown = await work.then(
    () => new Error('It was not refused.'),
    (reason: unknown) => reason,
  );
  if (isExpungeError(error) && 'code' in (error as object)) return (error as { code: string }).code;
  throw error;
}
