/**
 * Whatever goes wrong, nothing that is said or kept repeats an identifier (WF-2). A marker is put wherever a person's value can
 * get in, and then looked for in every error (its cause and its properties too), log line, row, receipt and result.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { inspect } from 'node:util';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../src/client/client.js';
import { files } from '../src/targets/files/index.js';
import { postgres } from '../src/targets/postgres/index.js';
import { everythingIn } from './support/chinook.js';
import { decodeReceipts } from './support/chinook-deletion.js';
import { type FileTree, fileTree } from './support/file-tree.js';
import { describeWithPostgres } from './support/postgres.js';
import { readableLog } from './support/record.js';
import { openShopOffice, type ShopOffice } from './support/shop-office.js';
import { openSmallShop, type SmallShop } from './support/small-shop.js';

/** In every value. Neither a UUID nor a digest nor a word of ours can hold it. */
const MARKER = 'zqxjkv';

/** Tables that people are known in by text, and a trigger that complains in words of its own. */
const schema = `
  CREATE TABLE person (ref text PRIMARY KEY, email text);
  CREATE TABLE letter (id serial PRIMARY KEY, ref text NOT NULL REFERENCES person, body text);
  CREATE INDEX ON letter (ref);
  CREATE TABLE account (id serial PRIMARY KEY, ref text, state text NOT NULL CHECK (state <> 'gone'));
  CREATE INDEX ON account (ref);
  CREATE TABLE mood (sqlstate text);
  CREATE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    mood text := (SELECT sqlstate FROM mood);
  BEGIN
    IF mood IS NULL THEN RETURN OLD; END IF;
    RAISE EXCEPTION USING ERRCODE = mood, MESSAGE = OLD.ref, DETAIL = OLD.ref, HINT = OLD.ref, CONSTRAINT = OLD.ref,
      TABLE = OLD.ref, COLUMN = OLD.ref, SCHEMA = OLD.ref, DATATYPE = OLD.ref;
  END $$;
  CREATE TRIGGER complain BEFORE DELETE ON letter FOR EACH ROW EXECUTE FUNCTION complain();`;

/** Where one value ends and another begins is what parsers, drivers and file systems get wrong. */
const awkward = fc.constantFrom(
  "'",
  '"',
  '\\',
  '%',
  '_',
  ' ',
  '\n',
  '\0',
  '/',
  '..',
  '$1',
  '{}',
  'é',
  'e\u0301',
  '\ud800',
  '@',
);
const part = fc.oneof(fc.string({ maxLength: 5 }), awkward, fc.constant(''));
const value = fc.tuple(part, fc.constantFrom(MARKER, MARKER.toUpperCase()), part).map((parts) => parts.join(''));
const email = fc.oneof(
  value.map((local) => `${local}@example.com`),
  value,
);
/** Conditions that the server reports, of every class that is told apart. */
const sqlstates = fc.constantFrom(
  null,
  ...[
    'P0001',
    '23503',
    '23505',
    '23514',
    '22001',
    '40001',
    '53100',
    '55P03',
    '57014',
    '42501',
    '42P01',
    '0A000',
    'XX000',
  ],
);

describeWithPostgres('WF-2: message discipline', () => {
  let shop: SmallShop;
  let tree: FileTree;
  let office: ShopOffice;
  let client: Client;
  const { log, lines } = readableLog();

  beforeAll(async () => {
    shop = await openSmallShop();
    await shop.query(schema);
    tree = await fileTree(['people']);
    office = await openShopOffice(shop);
    client = await shop.client({
      log,
      targets: {
        operational: postgres({
          url: shop.url,
          tables: {
            person: { key: { ref: 'customerId' }, action: 'delete' },
            letter: { through: 'person', action: 'delete' },
          },
        }),
        accounts: postgres({
          url: shop.url,
          tables: { account: { key: { ref: 'customerId' }, action: 'anonymize', set: { ref: null, state: 'gone' } } },
        }),
        artifacts: files({ root: tree.root, paths: ['people/{customerId}/'] }),
      },
    });
  });
  afterAll(async () => {
    await office.close();
    await shop.close();
    await tree.close();
  });

  test('of the client: no error, log line, result, row or receipt repeats a value', { timeout: 240_000 }, async () => {
    let completed = 0;
    let failures = 0;
    const round = fc.record({ ref: value, mail: email, sqlstate: sqlstates, hasAccount: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(round, async ({ ref, mail, sqlstate, hasAccount }) => {
        await plant(ref, hasAccount, sqlstate);
        const said: unknown[] = [];
        const attempt = async <T>(work: () => Promise<T>): Promise<T | null> => {
          try {
            const result = await work();
            said.push(result);
            return result;
          } catch (error) {
            failures += 1;
            said.push(error);
            return null;
          }
        };
        await wrongInput(attempt, ref, mail);
        const id = await correctInput(attempt, ref);
        if (id !== null && (await client.get(id)).status === 'complete') completed += 1;
        for (const thing of said) expect(textOf(thing)).not.toContain(MARKER);
        expect(textOf(lines)).not.toContain(MARKER);
        expect((await everythingIn(shop.ownUrl)).toLowerCase()).not.toContain(MARKER);
      }),
      // One round at least goes through to its receipt.
      {
        numRuns: 25,
        examples: [[{ ref: `'${MARKER}'`, mail: `${MARKER}@example.com`, sqlstate: null, hasAccount: false }]],
      },
    );
    // It was no property of refusals alone.
    expect(completed).toBeGreaterThan(0);
    expect(failures).toBeGreaterThan(100);
  });

  /** Rows and files of the person, as far as a store can have them under such a name. */
  async function plant(ref: string, hasAccount: boolean, sqlstate: string | null): Promise<void> {
    await shop.query('DELETE FROM mood; DELETE FROM letter; DELETE FROM person; DELETE FROM account');
    if (ref.includes('\0') || !ref.isWellFormed()) return;
    await shop.query('INSERT INTO person VALUES ($1, $1)', [ref]);
    await shop.query('INSERT INTO letter (ref, body) SELECT $1, $1 FROM generate_series(1, 3)', [ref]);
    if (hasAccount) await shop.query(`INSERT INTO account (ref, state) VALUES ($1, 'open')`, [ref]);
    if (sqlstate !== null) await shop.query('INSERT INTO mood VALUES ($1)', [sqlstate]);
    if (/[/]|^\.{1,2}$/.test(ref)) return;
    const file = join(tree.root, 'people', ref, `${ref}.txt`);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, ref);
  }

  type Attempt = <T>(work: () => Promise<T>) => Promise<T | null>;

  /** The value in every place where it does not belong. */
  async function wrongInput(attempt: Attempt, ref: string, mail: string): Promise<void> {
    const subject = { customerId: ref };
    const by = { requestedBy: 'anna' };
    const order = { requestId: ref, by: 'anna', reason: 'asked to' };
    const { signal } = new AbortController();
    const tries: readonly (() => Promise<unknown>)[] = [
      () => client.submit({ [ref]: 'x' }, by),
      () => client.submit({ customerId: 'x', [ref]: ref }, by),
      () => client.submit({ email: mail }, by),
      () => client.submit({ customerId: ref.repeat(400) }, by),
      () => client.submit({ customerId: { toString: () => ref } as unknown as string }, by),
      () => client.submit(subject, { requestedBy: ref }),
      () => client.submit(subject, { requestedBy: ref.toUpperCase() }),
      () => client.submit(subject, { ...by, reasonCode: ref }),
      () => client.preview({ customerId: ref, email: mail }),
      () => client.status(subject),
      () => client.status({ email: mail }),
      () => client.get(ref),
      () => client.revise(ref, 'anna'),
      () => client.exportReceipts(ref),
      () => client.requests.show(ref),
      () => client.requests.approve({ requestId: ref, approvedBy: 'ben', inventoryDigest: ref }),
      () => client.requests.hold({ ...order, until: new Date('2999-01-01') }),
      () => client.requests.cancel(order),
      () => client.requests.unblock(order),
      () => client.requests.run(ref, { executorId: 'worker-a', signal }),
      () => client.submitUserDeletion({ target: ref, requestedBy: 'anna' }),
      () => client.submitUserDeletion({ target: `demo:${ref}`, requestedBy: '' }),
    ];
    for (const work of tries) await attempt(work);
  }

  /** A whole deletion, with the value once more where it does not belong; null where nobody can be known by it. */
  async function correctInput(attempt: Attempt, ref: string): Promise<string | null> {
    const { signal } = new AbortController();
    const options = { requestedBy: 'anna', idempotencyKey: ref };
    const submitted = await attempt(() => client.submit({ customerId: ref }, options));
    await attempt(() => client.submit({ customerId: ref }, { requestedBy: 'carl' }));
    if (submitted === null) return null;
    const { id, inventory_digest } = submitted;
    await attempt(() => client.requests.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: ref }));
    await attempt(() => client.requests.approve({ requestId: id, approvedBy: ref, inventoryDigest: inventory_digest }));
    await attempt(() => client.requests.cancel({ requestId: id, by: ref, reason: 'asked to' }));
    await attempt(() => client.requests.run(id, { executorId: ref, signal }));
    await attempt(() => client.revise(id, ref));
    await attempt(() =>
      client.requests.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest }),
    );
    await attempt(() => client.requests.run(id, { executorId: 'worker-a', signal }));
    // Ended or not: refusals are recorded with the name of whoever was refused.
    await attempt(() => client.revise(id, ref));
    await attempt(() => client.requests.unblock({ requestId: id, by: ref, reason: 'asked to' }));
    await attempt(() => client.requests.show(id));
    await attempt(() => client.requests.list({ workflow: null, status: null, limit: 100 }));
    await attempt(async () => decodeReceipts(await client.exportReceipts(id)));
    return id;
  }

  test('of the command line: nothing is printed that was typed in the wrong place', { timeout: 240_000 }, async () => {
    const ref = `Person-${MARKER}-1`;
    const mail = `${MARKER}@example.com`;
    const commands: readonly (readonly [args: readonly string[], input?: string])[] = [
      [[ref]],
      [['submit', ref]],
      [['submit', '--subject', ref, '--requested-by', 'anna']],
      [['submit', '--subject', `${ref}=1`, '--requested-by', 'anna']],
      [['submit', '--subject', `email=${ref}`, '--subject', 'customerId=1', '--requested-by', 'anna']],
      [['submit', `--customer=${ref}`, '--requested-by', 'anna']],
      [['submit', '--subject', `customerId=${ref}`, '--requested-by', ref]],
      [['submit', '--subject', `customerId=${ref}`, '--requested-by', 'anna', '--due', ref]],
      [['submit', '--subject-stdin', '--requested-by', 'anna'], `{"customerId": "${ref}", "x": ${ref}}`],
      [['submit', '--subject-stdin', '--requested-by', 'anna'], `{"customerId": ["${ref}"]}`],
      [['submit', '--subject-stdin', '--requested-by', 'anna', '--dry-run'], `customerId=${ref}\nemail=${mail}`],
      [['submit', '--subject-stdin', '--requested-by', 'anna'], `customerId=${ref}\nemail=${mail}`],
      [['status', '--subject', `customerId=${ref}`]],
      [['run', ref]],
      [['show', ref]],
      [['approve', ref, '--approved-by', 'ben', '--inventory-digest', ref]],
      [['list', '--status', ref]],
      [['list', '--limit', ref]],
      [['list']],
    ];
    const env = { EXPUNGE_LOG: 'debug' };
    for (const [args, input] of commands) {
      const { stdout, stderr } = await office.expunge(args, { env, ...(input === undefined ? {} : { input }) });
      expect(`${args[0]}: ${stdout}${stderr}`.replace(/^[^:]*/, '').toLowerCase()).not.toContain(MARKER);
    }
    expect((await everythingIn(shop.ownUrl)).toLowerCase()).not.toContain(MARKER);
  });
});

/** All that whoever prints a thing could print: of an error its stack, its properties and its causes. */
function textOf(thing: unknown): string {
  const printed = inspect(thing, { depth: 20, showHidden: true, maxStringLength: null, maxArrayLength: null });
  const json = thing instanceof Error ? JSON.stringify({ ...thing }) : JSON.stringify(thing);
  return `${printed}\n${json}`.toLowerCase();
}
