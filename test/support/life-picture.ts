/**
 * Everything that a life of a request leaves behind: its rows, its receipts, its tombstone, and what is in the stores. Without
 * what differs from run to run, so that two lives can be held against each other.
 */
import { verifyReceipts } from '../../src/evidence/verify-receipts.js';
import { TABLES } from '../../src/storage/database.js';
import { decodeReceipts } from './chinook-deletion.js';
import { rowsOfOne } from './small-shop.js';
import type { TwoStores } from './two-stores.js';

export interface Picture {
  readonly request: unknown;
  readonly inventories: unknown;
  readonly approvals: unknown;
  readonly orders: unknown;
  /** In the order of their chain. */
  readonly stages: readonly StagePicture[];
  readonly events: readonly EventPicture[];
  /** Verified and decoded. */
  readonly receipts: readonly ReceiptPicture[];
  readonly sealed: number;
  readonly tombstones: unknown;
  /** What the registry answers. */
  readonly status: unknown;
  /** How many rows and files of the subject are in the stores. */
  readonly left: number;
  /** In which tables of the record one of the subject's identifiers stands. */
  readonly named: readonly string[];
}

export interface StagePicture {
  readonly stage: string;
  readonly target_community_id: string | null;
  readonly metadata_json: { readonly result?: { readonly state?: string } };
}

export interface EventPicture {
  readonly event: string;
}

export interface ReceiptPicture {
  readonly target?: string;
  readonly sequence: number;
  readonly previous_hash: string | null;
  readonly physical?: { readonly cleanup?: readonly object[] };
}

export async function pictureOf(stores: TwoStores, id: string, customer: number): Promise<Picture> {
  const { events, ...rows } = await stores.client.requests.show(id);
  const isErasure = rows.request.workflow === 'erasure';
  const own = <Row extends object>(statement: string) => stores.shop.own<Row>(statement, [id]);
  const [sealed] = await own<{ count: number }>(
    'SELECT count(*)::int AS count FROM deletion_sealed_identifiers WHERE request_id = $1',
  );
  const picture = {
    ...rows,
    // Their ids count the events of everybody.
    events: events.filter(({ event }) => event !== 'taken_over').map((event) => ({ ...event, id: null })),
    receipts: isErasure ? await receiptsOf(stores, id) : [],
    sealed: sealed?.count,
    tombstones: isErasure ? await tombstonesOf(stores, customer) : [],
    status: isErasure ? await stores.client.status({ customerId: String(customer) }) : null,
    left: isErasure ? await countLeft(stores, customer) : 0,
    named: isErasure ? await tablesThatName(stores, customer) : [],
  };
  return withoutDifferences(picture, id, customer) as Picture;
}

/** Verified: whoever compares them knows that their chain is whole and their signatures are good. */
async function receiptsOf(stores: TwoStores, id: string): Promise<unknown> {
  const exported = await stores.client.exportReceipts(id);
  const receipts = decodeReceipts(exported);
  if (receipts.length === 0) return [];
  const { verified, findings } = await verifyReceipts(exported, stores.shop.keys.verification);
  if (!verified) throw new Error(`The receipts do not verify: ${JSON.stringify(findings)}`);
  return receipts;
}

/** The subject's tombstones, found as the registry finds them. */
async function tombstonesOf(stores: TwoStores, customer: number): Promise<unknown> {
  const { generation } = await stores.client.status({ customerId: String(customer) });
  return stores.shop.own('SELECT * FROM deletion_tombstones WHERE generation = $1', [generation]);
}

async function countLeft(stores: TwoStores, customer: number): Promise<number> {
  const files = await stores.fileNames();
  return (
    (await stores.shop.query(rowsOfSubject, [customer])).length + files.filter((path) => isOf(path, customer)).length
  );
}

const isOf = (path: string, customer: number): boolean => path.startsWith(`/customers/${customer}/`);

/** Rows whose parents are gone are the subject's too: everybody else's are there. */
const rowsOfSubject = `
  SELECT 'customer' FROM customer WHERE customer_id = $1
  UNION ALL SELECT 'session' FROM session WHERE customer_id = $1
  UNION ALL SELECT 'invoice' FROM invoice WHERE customer_id = $1
  UNION ALL SELECT 'invoice_line' FROM invoice_line l LEFT JOIN invoice i USING (invoice_id)
             WHERE i.customer_id = $1 OR i.invoice_id IS NULL
  UNION ALL SELECT 'visit' FROM visit WHERE customer_id = $1
  UNION ALL SELECT 'search_log' FROM search_log s LEFT JOIN visit v ON v.no = s.visit_no
             WHERE v.customer_id = $1 OR v.no IS NULL`;

async function tablesThatName(stores: TwoStores, customer: number): Promise<readonly string[]> {
  const named: string[] = [];
  for (const table of Object.values(TABLES)) {
    const found = await stores.shop.own(`SELECT FROM ${table} r WHERE strpos(r::text, $1) > 0`, [String(customer)]);
    if (found.length > 0) named.push(table);
  }
  return named;
}

/** Everything in the stores that is not this customer's: a hash of each table, and the names of all files. */
export async function othersOf(stores: TwoStores, customer: number): Promise<readonly string[]> {
  const invoices = await stores.shop.query<{ invoice_id: number }>(
    'SELECT invoice_id FROM invoice WHERE customer_id = $1',
    [customer],
  );
  const own = new Set(invoices.map(({ invoice_id }) => `/invoices/${invoice_id}.pdf`));
  const files = (await stores.fileNames()).filter((path) => !isOf(path, customer) && !own.has(path));
  const tables = Object.keys(rowsOfOne).map((table) => {
    const parent = { invoice_line: 'JOIN invoice USING (invoice_id)', search_log: 'JOIN visit ON no = visit_no' }[
      table
    ];
    return `SELECT '${table} ' || count(*) || ' ' || md5(string_agg(t::text, '|' ORDER BY t::text)) AS hash
              FROM ${table} t ${parent ?? ''} WHERE customer_id <> $1`;
  });
  const rows = await stores.shop.query<{ hash: string }>(tables.join(' UNION ALL '), [customer]);
  return [...rows.map(({ hash }) => hash), ...files];
}

const dropped = new Set(['attempts', 'lease_generation']);

/** Ids, times, hashes, references and generations are told apart by what they look like, and stand as their kind. */
function withoutDifferences(value: unknown, id: string, customer: number): unknown {
  return JSON.parse(JSON.stringify(value), (key, found: unknown) => {
    if (dropped.has(key)) return undefined;
    if (key.endsWith('generation') && found !== null) return Number(found) === 0 ? 0 : 'GENERATION';
    if (typeof found !== 'string') return found;
    return found
      .replaceAll(id, 'REQUEST')
      .replaceAll(String(customer), 'SUBJECT')
      .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'ID')
      .replace(/\d{4}-\d{2}-\d{2}T[\d:.]+(Z|\+00:00)/g, 'TIME')
      .replace(/\b[0-9a-f]{64}\b/g, 'HASH')
      .replace(/\b(ref1|idem1|token1)\.[\w.-]+/g, '$1')
      .replace(/^eyJ[\w.-]+$/, 'SIGNED')
      .replace(/\bprocess-\d+\b/g, 'PROCESS');
  });
}
