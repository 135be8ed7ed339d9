/**
 * The music shop Chinook with what a real shop has besides: sessions, support notes in free text, and a file per invoice. One
 * of its customers is to be deleted.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { createTestDatabase } from './postgres.js';

/** The repository, for configurations that import the package. */
export const repository = fileURLToPath(new URL('../..', import.meta.url));
const shared = resolve(repository, process.env['EXPUNGE_TEST_SHARED_DIR'] ?? '../shared');
const script = join(shared, 'data/chinook/chinook-postgresql.sql');

/** Whether the shop's data is on this machine: it is no part of the package. */
export const hasChinook = existsSync(script);

/** Customer 5, as the data has him. */
export const person = {
  customerId: '5',
  name: 'František Wichterlová',
  email: 'frantisekw@jetbrains.com',
  phone: '+420 2 4172 5555',
} as const;

/** What must be nowhere afterwards. The address counts: invoices repeat it. */
export const traces: readonly string[] = ['Wichterl', 'frantisekw', '4172 5555', 'Klanova'];

/** Rows and files of the person, by place. */
export const planted = {
  customer: 1,
  invoice: 7,
  invoice_line: 38,
  session: 2,
  support_note: 3,
  'invoices/{invoice}.pdf': 7,
} as const;

export interface MusicShop {
  readonly url: string;
  /** The directory of the file tree. */
  readonly files: string;
  query<R extends pg.QueryResultRow>(statement: string): Promise<readonly R[]>;
  /** A checksum of every table, without the rows of the person. */
  tables(): Promise<Readonly<Record<string, string>>>;
  /** A checksum of every file. */
  artifacts(): Promise<Readonly<Record<string, string>>>;
  /** The numbers of the person's invoices. */
  invoices(): Promise<readonly number[]>;
  close(): Promise<void>;
}

export async function openMusicShop(): Promise<MusicShop> {
  const { url, drop } = await createTestDatabase();
  const client = new pg.Client(url);
  await client.connect();
  await client.query(readFileSync(script, 'utf8'));
  await client.query(`
    CREATE TABLE session (
      token text PRIMARY KEY, customer_id int NOT NULL REFERENCES customer, user_agent text NOT NULL);
    CREATE INDEX ON session (customer_id);
    INSERT INTO session
    SELECT md5(customer_id || '-' || n), customer_id, first_name || '''s phone'
      FROM customer, generate_series(1, 2) n;
    -- Without a foreign key: support knows people by their address, and writes about them as it likes.
    CREATE TABLE support_note (note_id int PRIMARY KEY, customer_email varchar(60) NOT NULL, body text NOT NULL);
    CREATE INDEX ON support_note (customer_email);
    INSERT INTO support_note
    SELECT customer_id * 10 + n, email,
           'Call ' || n || ': ' || first_name || ' ' || last_name || ' wants to be reached at ' || coalesce(phone, email)
      FROM customer, generate_series(1, 3) n;
    -- What a shop that has been running for a while has: copies of values in the planner's statistics.
    ANALYZE`);
  const files = mkdtempSync(join(tmpdir(), 'expunge-chinook-'));
  await writeInvoices(client, files);
  const query = async <R extends pg.QueryResultRow>(statement: string): Promise<readonly R[]> =>
    (await client.query<R>(statement)).rows;
  return {
    url,
    files,
    query,
    tables: () => checksums(client),
    async artifacts() {
      const names = (await readdir(join(files, 'invoices'))).sort();
      const sums = names.map(async (name) => [name, sha256(await readFile(join(files, 'invoices', name)))] as const);
      return Object.fromEntries(await Promise.all(sums));
    },
    invoices: async () =>
      (await query<{ id: number }>('SELECT invoice_id AS id FROM invoice WHERE customer_id = 5 ORDER BY 1')).map(
        ({ id }) => id,
      ),
    async close() {
      await client.end();
      await drop();
      await rm(files, { recursive: true, force: true });
    },
  };
}

/** Something like a PDF for each invoice, with its customer in it. */
async function writeInvoices(client: pg.Client, root: string): Promise<void> {
  await mkdir(join(root, 'invoices'));
  const { rows } = await client.query<{ id: number; text: string }>(`
    SELECT invoice_id AS id, concat_ws(', ', first_name || ' ' || last_name, email, phone, billing_address) AS text
      FROM invoice JOIN customer USING (customer_id)`);
  await Promise.all(rows.map(({ id, text }) => writeFile(join(root, 'invoices', `${id}.pdf`), pdfOf(id, text))));
}

function pdfOf(invoice: number, text: string): string {
  const page = `BT /F1 12 Tf 72 720 Td (Invoice ${invoice}: ${text}) Tj ET`;
  return `%PDF-1.4\n4 0 obj\n<< /Length ${Buffer.byteLength(page)} >>\nstream\n${page}\nendstream\nendobj\n%%EOF\n`;
}

const ofThePerson: Readonly<Record<string, string>> = {
  customer: 'customer_id = 5',
  invoice: 'customer_id = 5',
  invoice_line: 'invoice_id IN (SELECT invoice_id FROM invoice WHERE customer_id = 5)',
  session: 'customer_id = 5',
  support_note: `customer_email = '${person.email}'`,
};

async function checksums(client: pg.Client): Promise<Readonly<Record<string, string>>> {
  const { rows: tables } = await client.query<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1`,
  );
  const sums: Record<string, string> = {};
  for (const { name } of tables) {
    const { rows } = await client.query<{ sum: string }>(
      `SELECT count(*) || ' ' || md5(coalesce(string_agg(r::text, E'\\n' ORDER BY r::text COLLATE "C"), '')) AS sum
         FROM ${name} r WHERE NOT (${ofThePerson[name] ?? 'false'})`,
    );
    sums[name] = rows[0]?.sum ?? '';
  }
  return sums;
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Every row of every table of a database, its catalogue of statistics included, as text. */
export async function everythingIn(url: string): Promise<string> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `SELECT oid::regclass::text AS name FROM pg_class
        WHERE relkind IN ('r', 'm') AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
          AND relpersistence <> 't' AND relnamespace::regnamespace::text !~ '^pg_toast'`,
    );
    const texts: string[] = [];
    for (const name of [...tables.map((table) => table.name), 'pg_statistic', 'pg_statistic_ext_data']) {
      const { rows } = await client.query<{ row: string }>(`SELECT r::text AS row FROM ${name} r`);
      texts.push(...rows.map(({ row }) => row));
    }
    return texts.join('\n');
  } finally {
    await client.end();
  }
}

/** A plain dump; null where this machine has no pg_dump that can read the server. */
export async function plainDump(url: string): Promise<string | null> {
  try {
    const { stdout } = await promisify(execFile)('pg_dump', ['--dbname', url], { maxBuffer: 2 ** 28 });
    return stdout;
  } catch (error) {
    const { code, stderr } = error as { code?: unknown; stderr?: unknown };
    if (code === 'ENOENT' || String(stderr).includes('server version mismatch')) return null;
    throw error;
  }
}

/** The traces that are in a text. */
export function tracesIn(text: string): readonly string[] {
  return traces.filter((trace) => text.includes(trace));
}
