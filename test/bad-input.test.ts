/**
 * What operators get wrong, each at the built command line: one line on standard error that says what, where and what to do,
 * an exit code of the contract, and nothing changed (OP-7, OP-10).
 */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { generateKeyFiles } from '../src/keys/generate-key-files.js';
import { writeKeyFiles } from '../src/keys/write-key-files.js';
import type { StartOptions } from './support/cli.js';
import { describeWithPostgres } from './support/postgres.js';
import { type ConfigText, openShopOffice, type ShopOffice, shopTablesText } from './support/shop-office.js';
import { openSmallShop, type SmallShop } from './support/small-shop.js';

const NOWHERE = 'postgres://postgres@127.0.0.1:1/nowhere';
const NONE = '01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f';

interface BadInput {
  readonly what: string;
  readonly config?: ConfigText;
  /** After `expunge`; a submit of customer 3 by anna where it is absent. */
  readonly args?: readonly string[];
  readonly start?: StartOptions;
  readonly code: number;
  /** What the line has to say, in parts. */
  readonly says: readonly string[];
}

const submitOf = (...subject: readonly string[]): readonly string[] => [
  'submit',
  ...subject.flatMap((pair) => ['--subject', pair]),
  ...['--requested-by', 'anna'],
];
const customer3 = submitOf('customerId=3');

const inputs: readonly BadInput[] = [
  {
    what: 'a locator of a target that does not exist',
    config: {
      targets: `artifacts: files({ root: '/tmp/x', paths: ['{i}.pdf'],
        locators: { i: { target: 'shop', place: 'invoice', column: 'invoice_id' } } }),`,
    },
    code: 2,
    says: ['targets.artifacts.locators.i.target', 'shop', 'one of the other targets, operational'],
  },
  {
    what: 'a target that is none',
    config: { targets: `warehouse: 'postgres',` },
    code: 2,
    says: ['targets.warehouse', 'made by a function such as postgres() or files()'],
  },
  {
    what: 'a place that is declared twice',
    config: {
      tables: `${shopTablesText} customer: [
        { key: { customer_id: 'customerId' }, action: 'delete' }, { key: { customer_id: 'customerId' }, action: 'delete' }],`,
    },
    code: 2,
    says: ['"customer(', 'twice', 'once'],
  },
  {
    what: 'an identifier that is given twice',
    args: submitOf('customerId=3', 'customerId=4'),
    code: 64,
    says: ['given twice', 'one subject'],
  },
  {
    what: 'a bound of the wrong type',
    config: { fields: `bounds: { rows: 'many' },` },
    code: 2,
    says: ['bounds.rows', 'a whole number of at least 1'],
  },
  {
    what: 'an identifier that is no text',
    args: ['submit', '--subject-stdin', '--requested-by', 'anna'],
    start: { input: '{"customerId": 3}' },
    code: 64,
    says: ['--subject-stdin', 'JSON object whose values are text'],
  },
  {
    what: "an unreachable database of Expunge's own",
    start: { env: { EXPUNGE_DATABASE_URL: NOWHERE } },
    code: 69,
    says: ['127.0.0.1:1/nowhere', 'ECONNREFUSED', 'EXPUNGE_DATABASE_URL'],
  },
  {
    what: 'an unreachable database of a target',
    config: { shopUrl: NOWHERE },
    code: 69,
    says: ['operational', 'ECONNREFUSED', 'check that the server runs'],
  },
  { what: 'an empty identifier', args: submitOf('customerId='), code: 64, says: ['--subject', 'NAME=VALUE'] },
  { what: 'a blank identifier', args: submitOf('customerId=  '), code: 2, says: ['customerId', 'is empty', 'give'] },
  {
    what: 'an empty identifier in JSON',
    args: ['submit', '--subject-stdin', '--requested-by', 'anna'],
    start: { input: '{"customerId": ""}' },
    code: 2,
    says: ['customerId', 'is empty', 'give'],
  },
  {
    what: 'an identifier that is not declared',
    args: submitOf('custmerId=3'),
    code: 2,
    says: ['customerId', 'give'],
  },
  {
    what: 'an identifier that a target needs and nobody gave',
    config: { tables: `${shopTablesText} customer: { key: { email: 'email' }, action: 'delete' },` },
    code: 2,
    says: ['operational', 'email', '--subject email=VALUE'],
  },
  {
    what: 'more rows than a request may delete',
    config: { fields: 'bounds: { rows: 5 },' },
    code: 2,
    says: ['bounds.rows', '16 copies', 'invoice_line', 'operational', 'raise the bound'],
  },
  {
    what: 'a protected subject',
    config: { fields: `protected: { customerId: ['1', '3'] },` },
    code: 2,
    says: ['protected', 'never deleted', 'take it out'],
  },
  {
    what: 'a table that does not exist',
    config: { tables: `${shopTablesText} custmer: { key: { customer_id: 'customerId' }, action: 'delete' },` },
    code: 2,
    says: ['operational', '"custmer"', 'is not in the database', "names are the catalogue's"],
  },
  {
    what: 'a column that does not exist',
    config: { tables: `${shopTablesText} visit: { key: { customer: 'customerId' }, action: 'delete' },` },
    code: 2,
    says: ['operational', '"visit"', '"customer"'],
  },
  {
    what: 'a column whose type cannot be compared',
    config: { tables: `${shopTablesText} odd: { key: { customer_id: 'customerId' }, action: 'delete' },` },
    code: 2,
    says: ['operational', '"odd"', '"customer_id"', 'jsonb', 'integer'],
  },
  {
    what: 'a value that its column cannot take',
    config: {
      tables: `${shopTablesText} visit: { key: { customer_id: 'customerId' }, action: 'anonymize', set: { customer_id: 'nobody' } },`,
    },
    code: 2,
    says: ['operational', '"visit"', '"customer_id"'],
  },
  {
    what: 'a table that is not declared and references one that is',
    config: { tables: shopTablesText.replace(/ *invoice_line:.*\n/, '') },
    code: 2,
    says: ['operational', '"invoice"', '"invoice_line"', 'declare'],
  },
  {
    what: 'an operator who is the subject',
    args: ['submit', '--subject', 'customerId=3', '--requested-by', ' 3 '],
    code: 2,
    says: ['operator', 'an identifier of the subject', 'self'],
  },
  {
    what: 'an operator who is the subject by another identifier, in other letters',
    args: [
      ...['submit', '--subject', 'customerId=3', '--subject', 'email=person3@example.com'],
      ...['--requested-by', 'Person3@Example.COM'],
    ],
    code: 2,
    says: ['operator', 'an identifier of the subject', 'self'],
  },
  { what: 'an unknown request', args: ['run', NONE], code: 2, says: [NONE, 'expunge list'] },
  {
    what: 'a guard’s key file, which can seal nothing',
    config: { keys: 'keys/guard.keys.json' },
    code: 1,
    says: ['sealing', 'guard.keys.json', 'use the key file that holds it'],
  },
  {
    what: 'a key file that is not there',
    config: { keys: 'keys/lost.json' },
    code: 2,
    says: ['keys/lost.json', 'ENOENT', 'check its path'],
  },
];

describeWithPostgres('bad input', () => {
  let shop: SmallShop;
  let office: ShopOffice;
  let configs = 0;

  beforeAll(async () => {
    shop = await openSmallShop();
    office = await openShopOffice(shop);
    await shop.query('CREATE TABLE odd (id int PRIMARY KEY, customer_id jsonb NOT NULL)');
  });
  afterAll(async () => {
    await office.close();
    await shop.close();
  });

  /** Every row but those of the event log, with the transaction that wrote it last. */
  async function everything(): Promise<unknown> {
    const tables = await shop.own<{ name: string }>(
      `SELECT relname AS name FROM pg_class
        WHERE relnamespace = 'expunge'::regnamespace AND relkind = 'r' AND relname <> 'deletion_events' ORDER BY 1`,
    );
    const rows = [];
    for (const { name } of tables) rows.push(await shop.own(`SELECT xmin, r::text FROM ${name} r ORDER BY 2`));
    return { own: rows, shop: await shop.rows() };
  }

  /** Runs a command that is refused, and answers the one line that it says. */
  async function refused(args: readonly string[], code: number, start: StartOptions = {}): Promise<string> {
    const before = await everything();
    const ended = await office.expunge(args, start);
    expect(ended).toMatchObject({ code, stdout: '' });
    expect(ended.stderr).toMatch(/^expunge: [^\n]+[.]\n$/);
    expect(await everything()).toEqual(before);
    return ended.stderr;
  }

  test.each(inputs)('$what', async ({ config, args = customer3, start, code, says }) => {
    configs += 1;
    const file = config === undefined ? [] : ['--config', await office.configure(`bad-${configs}.mjs`, config)];
    const line = await refused([...args, ...file], code, start);
    for (const part of says) expect(line).toContain(part);
  });

  let next = 3;
  /** A submitted request by Anna, for a customer of its own. */
  async function submitted(): Promise<{ readonly id: string; readonly digest: string; readonly customer: string }> {
    const client = await shop.client();
    const customer = String((next += 1));
    const { id, inventory_digest } = await client.submit({ customerId: customer }, { requestedBy: 'Anna' });
    return { id, digest: inventory_digest, customer };
  }

  async function approved(): Promise<{ readonly id: string; readonly digest: string; readonly customer: string }> {
    const request = await submitted();
    const client = await shop.client();
    await client.requests.approve({ requestId: request.id, approvedBy: 'ben', inventoryDigest: request.digest });
    return request;
  }

  test('an approval of another digest, by the requester in other letters, or by the subject', async () => {
    const { id, digest, customer } = await submitted();
    const approve = (by: string, inventory: string) =>
      refused(['approve', id, '--approved-by', by, '--inventory-digest', inventory], 2);
    const other = await approve(
      'ben',
      digest.replace(/.$/, (last) => (last === '0' ? '1' : '0')),
    );
    for (const part of [id, digest, 'not the given one', `expunge show ${id}`]) expect(other).toContain(part);
    expect(await approve(' ANNA ', digest)).toContain(`${id} was requested by the same person: somebody else`);
    const subject = await approve(customer, digest);
    expect(subject).toContain(`an identifier of the subject of request ${id}`);
    expect(subject).toContain("give an operator's own id");
  });

  test('WF-2: an order in the name of the subject', async () => {
    const { id, customer } = await submitted();
    for (const order of [
      ['cancel', id, '--by', customer, '--reason', 'asked to'],
      ['hold', id, '--by', customer, '--until', '2999-01-01T00:00:00Z', '--reason', 'asked to'],
      ['unblock', id, '--by', customer, '--reason', 'asked to'],
      ['revise', id, '--by', customer],
    ]) {
      expect(await refused(order, 2)).toContain('an identifier of the subject');
    }
  });

  test('WF-6: a plan that was changed after the approval, with both digests', async () => {
    const { id } = await approved();
    const tables = shopTablesText.replace(/ *visit:.*\n *search_log:.*\n?/, '');
    const line = await refused(['run', id, '--config', await office.configure('changed.mjs', { tables })], 2);
    expect(line).toMatch(/target operational .*approved [0-9a-f]{64}, present [0-9a-f]{64}/);
    expect(line).toContain(`expunge revise ${id}`);
  });

  test(
    'WF-3: keys without the one of an existing request; a worker blocks it, and nothing is taken for gone',
    { timeout: 180_000 },
    async () => {
      const { id } = await approved();
      await writeKeyFiles(join(office.directory, 'other-keys'), generateKeyFiles());
      const other = ['--config', await office.configure('other-keys.mjs', { keys: 'other-keys/worker.keys.json' })];
      const missing = /The key seal-\S+, needed to open sealed identifiers, is not in other-keys.*put it back/;
      expect(await refused(['run', id, ...other], 1)).toMatch(missing);
      expect(await refused(['revise', id, '--by', 'carl', ...other], 1)).toMatch(missing);

      const rows = await shop.rows();
      expect(await office.expunge(['worker', '--once', ...other])).toMatchObject({ code: 1 });
      const [blocked] = await shop.own<{ status: string; blocked_reason: string }>(
        'SELECT status, blocked_reason FROM entity_deletion_requests WHERE id = $1',
        [id],
      );
      expect(blocked?.status).toBe('blocked');
      expect(blocked?.blocked_reason).toMatch(missing);
      expect(await shop.rows()).toEqual(rows);
      expect(await shop.own('SELECT FROM deletion_receipts WHERE request_id = $1', [id])).toEqual([]);

      await office.json(['unblock', id, '--by', 'carl', '--reason', 'the key file is back']);
      expect(await office.json(['run', id])).toMatchObject({ status: 'completed' });
    },
  );

  test('OP-2: two submits at once for one subject: one is made, the other is refused and names it', async () => {
    const ends = await Promise.all([1, 2].map(() => office.expunge(submitOf('customerId=9'))));
    expect(ends.map(({ code }) => code).sort()).toEqual([0, 2]);
    const made = ends.find(({ code }) => code === 0);
    const second = ends.find(({ code }) => code === 2);
    const { id } = JSON.parse(made?.stdout ?? '') as { id: string };
    expect(second?.stderr).toMatch(/^expunge: There is a live request for this already: [^\n]+\n$/);
    expect(second?.stderr).toContain(id);
    const line = await refused(submitOf('customerId=9'), 2);
    expect(line).toContain(id);
    expect(await shop.own('SELECT FROM entity_deletion_requests WHERE id = $1', [id])).toHaveLength(1);
  });

  test('a database that is newer than the program', async () => {
    await shop.own(`INSERT INTO schema_migrations (number, name, checksum)
                    SELECT max(number) + 1, 'of-tomorrow', 'x' FROM schema_migrations`);
    try {
      for (const args of [customer3, ['list'], ['migrate']]) {
        expect(await refused(args, 2)).toMatch(/newer than this program .*roll forward/);
      }
    } finally {
      await shop.own(`DELETE FROM schema_migrations WHERE name = 'of-tomorrow'`);
    }
  });
});
