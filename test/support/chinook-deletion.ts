/** One customer of the music shop, deleted through the built command line, with everything that was said about it. */
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type MusicShop, person, repository } from './chinook.js';
import { type Ended, startProcess } from './cli.js';

export interface Deletion {
  readonly id: string;
  /** What was approved, by place. */
  readonly counts: Readonly<Record<string, number>>;
  /** What the registry answers afterwards. */
  readonly status: unknown;
  readonly shown: unknown;
  /** The exported receipts. */
  readonly exported: string;
  /** Whatever any command wrote on standard output and standard error, with the log at its most talkative. */
  readonly said: string;
  /** Where the commands were run. */
  readonly directory: string;
}

interface Options {
  /** Expunge's own database; null for the embedded one. */
  readonly database: string | null;
  /** How it is run: `run` is given the id, a worker finds it. */
  readonly by: 'run' | 'worker';
}

/** From `init` to the export of the receipts. The caller removes the directory. */
export async function deleteThePerson(shop: MusicShop, { database, by }: Options): Promise<Deletion> {
  const directory = await mkdtemp(join(tmpdir(), 'expunge-chinook-'));
  const said: string[] = [];
  const env = {
    EXPUNGE_DATABASE_URL: database ?? undefined,
    EXPUNGE_LOG: 'debug',
    SHOP_URL: shop.url,
    SHOP_FILES: shop.files,
  };
  async function expunge(args: readonly string[], input = ''): Promise<string> {
    const { code, stdout, stderr } = await startProcess(args, { cwd: directory, input, env }).ended;
    said.push(stdout, stderr);
    if (code !== 0) throw new Error(`expunge ${args[0]} ended with ${code}: ${stderr}`);
    return stdout;
  }
  const json = async <T>(args: readonly string[], input?: string): Promise<T> =>
    JSON.parse(await expunge(args, input)) as T;

  await configure(directory, database === null ? 'embedded: {}' : 'database: process.env.EXPUNGE_DATABASE_URL');
  await expunge(['init']);
  if (database !== null) await expunge(['migrate']);
  const subject = JSON.stringify({ customerId: person.customerId, email: person.email });
  const asked = ['--subject-stdin', '--requested-by', 'anna', '--reason-code', 'MAIL_REQUEST'];
  const submitted = await json<Submitted>(['submit', ...asked], subject);
  const { id } = submitted;
  await expunge(['approve', id, '--approved-by', 'ben', '--inventory-digest', submitted.inventory_digest]);
  await expunge(by === 'run' ? ['run', id] : ['worker', '--once']);
  const status = await json(['status', '--subject-stdin'], subject);
  const shown = await json(['show', id]);
  const exported = await expunge(['receipts', 'export', id]);
  return { id, counts: countsOf(submitted.inventory), status, shown, exported, said: said.join('\n'), directory };
}

interface Submitted {
  readonly id: string;
  readonly inventory_digest: string;
  readonly inventory: {
    readonly targets: readonly { readonly places: readonly { readonly place: string; readonly count: number }[] }[];
  };
}

function countsOf({ targets }: Submitted['inventory']): Record<string, number> {
  return Object.fromEntries(targets.flatMap(({ places }) => places).map(({ place, count }) => [place, count]));
}

/** A configuration of this shop, as its operator would write it, in a directory with the package installed. */
async function configure(directory: string, database: string): Promise<void> {
  await mkdir(join(directory, 'node_modules'));
  await symlink(repository, join(directory, 'node_modules', 'expunge'), 'dir');
  await writeFile(
    join(directory, 'expunge.config.ts'),
    `import { defineConfig } from 'expunge';
     import { files } from 'expunge/files';
     import { postgres } from 'expunge/postgres';

     export default defineConfig({
       ${database},
       keys: { file: 'expunge-keys/worker.keys.json' },
       subject: { key: 'customerId', identifiers: { customerId: { opaque: true }, email: { normalise: 'email' } } },
       targets: {
         operational: postgres({
           url: process.env.SHOP_URL,
           tables: {
             customer: { key: { customer_id: 'customerId' }, action: 'delete' },
             session: { key: { customer_id: 'customerId' }, action: 'delete', revoke: true },
             invoice: { key: { customer_id: 'customerId' }, action: 'delete' },
             invoice_line: { through: 'invoice', action: 'delete' },
             support_note: { key: { customer_email: 'email' }, action: 'delete' },
           },
         }),
         artifacts: files({
           root: process.env.SHOP_FILES!,
           paths: ['invoices/{invoice}.pdf'],
           locators: { invoice: { target: 'operational', place: 'invoice', column: 'invoice_id' } },
         }),
       },
     });`,
  );
}

/** As an auditor does it: somewhere else, with the export and the public keys and nothing more. */
export async function verifyElsewhere({ id, exported, directory }: Deletion): Promise<Ended> {
  const office = await mkdtemp(join(tmpdir(), 'expunge-auditor-'));
  try {
    await writeFile(join(office, 'receipts.json'), exported);
    await cp(join(directory, 'expunge-keys', 'receipts.jwks.json'), join(office, 'keys.json'));
    const args = ['receipts', 'verify', 'receipts.json', '--keys', 'keys.json', '--request', id];
    return await startProcess(args, { cwd: office, env: { EXPUNGE_DATABASE_URL: undefined } }).ended;
  } finally {
    await rm(office, { recursive: true });
  }
}

export interface DecodedReceipt {
  readonly kind: 'target' | 'final';
  readonly target?: string;
  readonly state?: string;
  readonly places?: readonly {
    readonly place: string;
    readonly counted: number;
    readonly removed: number;
    readonly left: number;
  }[];
  readonly physical: { readonly cleanup?: readonly { readonly place: string; readonly did: readonly string[] }[] };
}

/** What exported receipts say, without a look at their signatures. */
export function decodeReceipts(exported: string): readonly DecodedReceipt[] {
  const { receipts } = JSON.parse(exported) as { receipts: readonly string[] };
  return receipts.map((jws) => {
    const payload = jws.split('.')[1] ?? '';
    return JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as DecodedReceipt;
  });
}
