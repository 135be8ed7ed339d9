/** Configuration files as users write them: they import the built package by its name. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = (file: string): string => pathToFileURL(join(root, 'dist', file)).href;

/** Loads the configuration of the working directory, and prints what came of it. */
const script = `
  import { loadConfig } from ${JSON.stringify(dist('config/load-config.js'))};
  import { ConfigError } from ${JSON.stringify(dist('config/config-error.js'))};
  try {
    const { config, file } = await loadConfig();
    const { shop } = config.targets;
    console.log(JSON.stringify({ file, database: config.database, kind: shop.kind, uses: shop.identifiers }));
  } catch (error) {
    console.log(JSON.stringify({ oneCopy: error instanceof ConfigError, code: error.code, message: error.message }));
  }
`;

const config = (identifier: string): string => `
  import { defineConfig } from 'expunge';
  import { postgres } from 'expunge/postgres';

  const key: string = 'customerId';
  export default defineConfig({
    database: process.env.EXPUNGE_DATABASE_URL,
    subject: { key: key as 'customerId', identifiers: { customerId: { opaque: true } } },
    targets: {
      shop: postgres({
        url: process.env.SHOP_URL,
        tables: { customer: { key: { customer_id: '${identifier}' }, action: 'delete' } },
      }),
    },
  });
`;

async function load(cwd: string): Promise<Record<string, unknown>> {
  const env = { ...process.env, EXPUNGE_DATABASE_URL: 'postgres://db/expunge', SHOP_URL: 'postgres://db/shop' };
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { cwd, env });
  return JSON.parse(stdout) as Record<string, unknown>;
}

describe.each([
  {
    where: 'in an application that has the package installed',
    open: async () => {
      const directory = await mkdtemp(join(tmpdir(), 'expunge-application-'));
      await mkdir(join(directory, 'node_modules'));
      await symlink(root, join(directory, 'node_modules', 'expunge'), 'dir');
      return directory;
    },
  },
  {
    where: "in the package's own repository",
    open: async () => {
      await mkdir(join(root, '.expunge'), { recursive: true });
      return mkdtemp(join(root, '.expunge', 'test-config-'));
    },
  },
])('a TypeScript configuration $where', ({ open }) => {
  let directory: string;
  beforeAll(async () => {
    directory = await open();
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  it('is loaded with the targets of the subpaths', async () => {
    await writeFile(join(directory, 'expunge.config.ts'), config('customerId'));
    expect(await load(directory)).toEqual({
      file: join(directory, 'expunge.config.ts'),
      database: { kind: 'postgres', url: 'postgres://db/expunge' },
      kind: 'postgres',
      uses: ['customerId'],
    });
  });

  it('is refused by the same copy of the package that loads it', async () => {
    await writeFile(join(directory, 'expunge.config.ts'), config('custmerId'));
    expect(await load(directory)).toEqual({
      oneCopy: true,
      code: 'CONFIG_INVALID',
      message:
        'The configuration is wrong at targets.shop.identifiers.0: found another name, custmerId, expected one of the declared identifiers, customerId.',
    });
  });
});
