import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openWorkplace, type Workplace } from './support/cli.js';
import { describeWithPostgres } from './support/postgres.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const EMAIL = 'jo@example.org';

const config = `
import { defineConfig } from 'expunge';
import { postgres } from 'expunge/postgres';
export default defineConfig({
  database: process.env.EXPUNGE_DATABASE_URL,
  keys: { file: 'expunge-keys/worker.keys.json' },
  subject: { key: 'customerId', identifiers: { customerId: { opaque: true }, email: { normalise: 'email' } } },
  targets: {
    operational: postgres({
      url: process.env.EXPUNGE_DATABASE_URL,
      tables: {
        customer: { key: { customer_id: 'customerId' }, action: 'delete' },
        newsletter: { key: { address: 'email' }, action: 'delete' },
      },
    }),
  },
  bounds: { rows: 10 },
});
`;

interface Submitted {
  readonly id: string;
  readonly status: string;
  readonly inventory_digest: string;
  readonly inventory: { readonly targets: readonly { readonly name: string; readonly places: readonly object[] }[] };
}

describeWithPostgres('an erasure from the terminal', () => {
  let workplace: Workplace;
  beforeAll(async () => {
    workplace = await openWorkplace();
    await workplace.sql('CREATE TABLE public.customer (customer_id text PRIMARY KEY, name text)');
    await workplace.sql('CREATE TABLE public.newsletter (id serial PRIMARY KEY, address text)');
    await workplace.sql(`INSERT INTO public.customer VALUES ('42', 'Jo'), ('43', 'Mo')`);
    await workplace.sql(`INSERT INTO public.newsletter (address) VALUES ($1), ('mo@example.org')`, [EMAIL]);
    // What npm does for whoever installs the package.
    mkdirSync(join(workplace.directory, 'node_modules'));
    symlinkSync(root, join(workplace.directory, 'node_modules', 'expunge'));
  });
  afterAll(() => workplace.close());

  const inDirectory = (...path: readonly string[]) => join(workplace.directory, ...path);

  test('init writes keys for each door and a configuration that loads; a second one keeps them all', async () => {
    const first = await workplace.json<{ written: readonly string[] }>('init');
    expect(first).toEqual({
      written: [
        'expunge-keys/guard.keys.json',
        'expunge-keys/client.keys.json',
        'expunge-keys/worker.keys.json',
        'expunge-keys/receipts.jwks.json',
        'expunge-keys/.gitignore',
        'expunge.config.ts',
      ],
      kept: [],
    });
    expect(statSync(inDirectory('expunge-keys', 'worker.keys.json')).mode & 0o777).toBe(0o600);
    const listed = await workplace.start(['list'], { env: { SHOP_URL: 'postgres://127.0.0.1/shop' } }).ended;
    expect(listed).toMatchObject({ code: 0, stderr: '', stdout: '[]\n' });

    const before = first.written.map((file) => readFileSync(inDirectory(file), 'utf8'));
    expect(await workplace.json('init')).toMatchObject({ written: [] });
    expect(first.written.map((file) => readFileSync(inDirectory(file), 'utf8'))).toEqual(before);
  });

  test('a subject is counted, approved, erased by a worker, and gone; its receipts verify, and a changed one does not', async () => {
    writeFileSync(inDirectory('expunge.config.ts'), config);
    const from = ['submit', '--subject-stdin', '--requested-by', 'anna'];
    const input = JSON.stringify({ customerId: '42', email: EMAIL });
    const look = await workplace.start([...from, '--dry-run'], { input }).ended;
    expect(look).toMatchObject({ code: 0, stderr: 'Nothing was recorded.\n' });
    expect(await workplace.json('list')).toEqual([]);

    const made = await workplace.start([...from, '--reason-code', 'MAIL_REQUEST'], { input }).ended;
    expect(made).toMatchObject({ code: 0, stderr: '' });
    const { id, status, inventory, inventory_digest } = JSON.parse(made.stdout) as Submitted;
    expect(status).toBe('submitted');
    expect(inventory.targets).toMatchObject([{ name: 'operational', places: [{ count: 1 }, { count: 1 }] }]);

    // OP-2, and without the identifiers in it.
    const again = await workplace.start(from, { input: `customerId=42\nemail=${EMAIL}\n` }).ended;
    expect(again).toMatchObject({ code: 2, stdout: '' });
    expect(again.stderr).toContain(id);

    const digest = ['--inventory-digest', inventory_digest];
    // What takes an id takes one of any workflow, also in the group.
    expect(await workplace.expunge('user-deletions', 'approve', id, '--approved-by', 'ben', ...digest)).toMatchObject({
      code: 0,
    });
    const worked = await workplace.expunge('worker', '--once', '--executor-id', 'w1');
    expect({ ...worked, stdout: JSON.parse(worked.stdout) as unknown }).toEqual({
      code: 0,
      stdout: { executor_id: 'w1', ended: { completed: 1 } },
      stderr: '',
    });
    expect(await workplace.sql('SELECT name FROM public.customer')).toEqual([{ name: 'Mo' }]);
    expect(await workplace.sql('SELECT address FROM public.newsletter')).toEqual([{ address: 'mo@example.org' }]);
    const gone = await workplace.start(['status', '--subject-stdin'], { input: 'customerId=42' }).ended;
    expect(gone.code).toBe(0);
    expect(JSON.parse(gone.stdout)).toMatchObject({ status: 'DELETED', state: 'complete' });

    const exported = await workplace.expunge('receipts', 'export', id);
    const verify = (text: string) =>
      workplace.start(['receipts', 'verify', '-', '--keys', 'expunge-keys/receipts.jwks.json', '--request', id], {
        env: { EXPUNGE_DATABASE_URL: undefined },
        input: text,
      }).ended;
    const genuine = await verify(exported.stdout);
    expect({ code: genuine.code, report: JSON.parse(genuine.stdout) as unknown }).toMatchObject({
      code: 0,
      report: { verified: true, findings: [] },
    });
    const cut = JSON.parse(exported.stdout) as { receipts: string[] };
    cut.receipts.pop();
    const truncated = await verify(JSON.stringify(cut));
    expect(truncated.code).toBe(1);
    expect(JSON.parse(truncated.stdout)).toMatchObject({ findings: [{ code: 'TRUNCATED' }] });

    const everything = [look, made, again, worked, gone, exported, genuine];
    expect(JSON.stringify(everything)).not.toContain(EMAIL);
  });

  test('revise counts again under the present configuration, for a new approval', async () => {
    const made = await workplace.json<Submitted>(
      ...['submit', '--subject', 'customerId=43', '--subject', 'email=mo@example.org', '--requested-by', 'anna'],
    );
    writeFileSync(inDirectory('expunge.config.ts'), config.replace(/ *newsletter: .*\n/, ''));
    const digest = ['--inventory-digest', made.inventory_digest];
    await workplace.json('approve', made.id, '--approved-by', 'ben', ...digest);
    const refused = await workplace.expunge('run', made.id);
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    const revised = await workplace.json<Submitted>('revise', made.id, '--by', 'anna');
    expect(revised.inventory_digest).not.toBe(made.inventory_digest);
    expect(revised.inventory.targets[0]?.places).toHaveLength(1);
    const stale = await workplace.expunge('approve', made.id, '--approved-by', 'ben', ...digest);
    expect(stale).toMatchObject({ code: 2, stdout: '' });
  });
});
