import { mkdtempSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { isExpungeError } from '../observe/expunge-error.js';
import { ConfigError, ConfigLoadError } from './config-error.js';
import { defineConfig } from './define-config.js';
import { installCommand } from './import-config.js';
import { configFromEnvironment, loadConfig, type LoadOptions } from './load-config.js';

const root = mkdtempSync(join(tmpdir(), 'expunge-config-'));
afterAll(() => rm(root, { recursive: true, force: true }));

let directories = 0;

/** A directory with these files. */
async function directoryWith(files: Readonly<Record<string, string>>): Promise<string> {
  directories += 1;
  const directory = join(root, String(directories));
  await mkdir(directory);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), text);
  }
  return directory;
}

const content = `{ subject: { key: 'id', identifiers: { id: {} } }, targets: {}, tenant: 'north' }`;
const script = `export default ${content};`;

function load(cwd: string, options: LoadOptions = {}) {
  return loadConfig({ cwd, env: {}, ...options });
}

async function refusal(cwd: string, options?: LoadOptions): Promise<Error> {
  const error: unknown = await load(cwd, options).catch((thrown: unknown) => thrown);
  if (error instanceof Error) return error;
  throw new Error('The configuration was loaded.');
}

describe('loadConfig', () => {
  it.each([
    ['expunge.config.ts', `const text: string = 'north';\nexport default { ...${content}, tenant: text };`],
    ['expunge.config.mts', `import type { Stats } from 'node:fs';\nexport default ${content} satisfies object;`],
    ['expunge.config.js', script],
    ['expunge.config.js', `module.exports = ${content};`],
    ['expunge.config.mjs', `const config = await Promise.resolve(${content});\nexport default config;`],
  ])('finds %s in the working directory', async (name, text) => {
    const cwd = await directoryWith({ [name]: text });
    const loaded = await load(cwd);
    expect(loaded.file).toBe(join(cwd, name));
    expect(loaded.config).toMatchObject({ tenant: 'north', database: { kind: 'pglite', directory: '.expunge' } });
  });

  it('loads the file that is asked for, and what it imports', async () => {
    const cwd = await directoryWith({
      'expunge.config.ts': 'throw new Error("not this one");',
      'etc/other.ts': `import { tenant } from './tenant.js';\nexport default { ...${content}, tenant };`,
      'etc/tenant.ts': `export const tenant: string = 'south';`,
    });
    const loaded = await load(cwd, { file: 'etc/other.ts' });
    expect(loaded).toMatchObject({ file: join(cwd, 'etc/other.ts'), config: { tenant: 'south' } });
  });

  it('reads a file that changed again', async () => {
    const cwd = await directoryWith({ 'expunge.config.ts': script });
    await load(cwd);
    await writeFile(join(cwd, 'expunge.config.ts'), script.replace('north', 'south'));
    expect((await load(cwd)).config.tenant).toBe('south');
  });

  it('refuses two files, and one that is not there', async () => {
    const two = await refusal(await directoryWith({ 'expunge.config.ts': script, 'expunge.config.mjs': script }));
    expect(two).toBeInstanceOf(ConfigLoadError);
    expect(two.message).toBe(
      'There are both expunge.config.ts and expunge.config.mjs: remove one, or choose with --config.',
    );
    const cwd = await directoryWith({});
    const none = await refusal(cwd, { file: 'gone.ts' });
    expect(none.message).toBe(
      `The configuration file ${join(cwd, 'gone.ts')} does not exist: correct the path after --config.`,
    );
    expect(none).toMatchObject({ code: 'CONFIG_NOT_LOADED', outcome: 'refused' });
  });

  it('refuses a file without a default export', async () => {
    const error = await refusal(await directoryWith({ 'expunge.config.ts': `export const config = ${content};` }));
    expect(error.message).toBe(
      'expunge.config.ts has no default export: write `export default defineConfig({ … })` in it.',
    );
  });

  it('checks what the file exports', async () => {
    const error = await refusal(
      await directoryWith({ 'expunge.config.js': 'export default { subject: 1, targets: {} };' }),
    );
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toContain('subject: found a number');
  });

  it('passes on an error of ours from inside the file, also where it is wrapped', async () => {
    const brand = `{ [Symbol.for('expunge.error')]: true, code: 'TARGET_DECLARATION' }`;
    const plain = await load(await directoryWith({ 'expunge.config.ts': `throw ${brand};` })).catch(
      (it: unknown) => it,
    );
    expect(isExpungeError(plain, 'TARGET_DECLARATION')).toBe(true);
    const text = `throw new Error('wrapped', { cause: ${brand} });`;
    const wrapped = await load(await directoryWith({ 'expunge.config.ts': text })).catch((it: unknown) => it);
    expect(wrapped).toMatchObject({ code: 'TARGET_DECLARATION' });
  });

  it('says where a file failed to run, without repeating what it says', async () => {
    const broken = await refusal(
      await directoryWith({ 'expunge.config.ts': `export default {\n  a: = 'hunter2',\n};` }),
    );
    expect(broken.message).toMatch(
      /^expunge\.config\.ts could not be run: Error at line 2, column \d+: correct it there\.$/,
    );
    const text = `const shop: any = undefined;\n\nexport default { a: shop.hunter2 };`;
    const thrown = await refusal(await directoryWith({ 'expunge.config.ts': text }));
    expect(thrown.message).toMatch(
      /^expunge\.config\.ts could not be run: TypeError at line 3, column \d+: correct it there\.$/,
    );
    expect(String(thrown.cause)).toContain('hunter2');
  });

  it('names a package that is not installed, and the command that installs it', async () => {
    const direct = await refusal(
      await directoryWith({ 'expunge.config.ts': `import '@made-up/driver/x.js';\n${script}` }),
    );
    expect(direct.message).toBe(
      'expunge.config.ts needs the package @made-up/driver, which is not installed: run `npm i @made-up/driver`.',
    );
    const cwd = await directoryWith({
      'expunge.config.mjs': `import 'middle';\n${script}`,
      'node_modules/middle/package.json': '{ "name": "middle", "type": "module", "exports": "./index.js" }',
      'node_modules/middle/index.js': `import 'made-up-peer';`,
    });
    const indirect = await refusal(cwd);
    expect(indirect.message).toBe(
      'expunge.config.mjs needs the package made-up-peer, which is not installed: run `npm i made-up-peer`.',
    );
    expect(indirect.cause).toBeInstanceOf(Error);
  });

  it('names a file that is not there', async () => {
    const error = await refusal(await directoryWith({ 'expunge.config.ts': `import './gone.js';\n${script}` }));
    expect(error.message).toBe('expunge.config.ts imports the file ./gone.js, which does not exist: correct its path.');
  });

  it('refuses a file that names no database while the environment names one', async () => {
    const env = { EXPUNGE_DATABASE_URL: 'postgres://hunter2@db/x' };
    const error = await refusal(await directoryWith({ 'expunge.config.ts': script }), { env });
    expect(error.message).toBe(
      'EXPUNGE_DATABASE_URL is set, and expunge.config.ts names no database: add `database: process.env.EXPUNGE_DATABASE_URL` to it, or `embedded: {}`.',
    );
    const embedded = await directoryWith({ 'expunge.config.ts': `export default { ...${content}, embedded: {} };` });
    expect((await load(embedded, { env })).config.database.kind).toBe('pglite');
    const named = await directoryWith({
      'expunge.config.ts': `export default { ...${content}, database: 'postgres://a/b' };`,
    });
    expect((await load(named, { env })).config.database).toEqual({ kind: 'postgres', url: 'postgres://a/b' });
  });
});

describe('the configuration of somebody who has no file', () => {
  it('OP-11: is the database of the environment, without subject, targets and keys', async () => {
    const env = { EXPUNGE_DATABASE_URL: 'postgres://db/expunge' };
    const { config, file } = await load(await directoryWith({}), { env });
    expect(file).toBeNull();
    expect(config).toMatchObject({
      database: { kind: 'postgres', url: 'postgres://db/expunge' },
      subject: null,
      keys: null,
    });
    expect(config.targets).toEqual({});
    expect(config.approvals).toEqual({ required: 1, expireAfter: { iso: 'P7D', seconds: 604_800 } });
    expect(defineConfig(config as never)).toBe(config);
  });

  it('OP-11: is the embedded database without that', () => {
    const { database } = configFromEnvironment({});
    expect(database).toEqual({ kind: 'pglite', directory: '.expunge', allowInProduction: false, declared: false });
  });

  it.each([
    ['', 'empty text'],
    ['mysql://hunter2@db/x', 'other text'],
    ['postgres://hunter2 @db/x', 'other text'],
  ])('is refused where the variable is %j, without repeating it', (url, found) => {
    expect(() => configFromEnvironment({ EXPUNGE_DATABASE_URL: url })).toThrow(
      new ConfigError([{ path: 'EXPUNGE_DATABASE_URL', found, expected: 'a URL that begins with postgres://' }]),
    );
  });
});

describe('installCommand', () => {
  it('asks for the versions of an optional peer', () => {
    const peers = { ioredis: '^5.4.0', '@aws-sdk/client-s3': '^3' };
    expect(installCommand('ioredis/built/x.js', peers)).toBe(`npm i 'ioredis@^5.4.0'`);
    expect(installCommand('@aws-sdk/client-s3', peers)).toBe(`npm i '@aws-sdk/client-s3@^3'`);
    expect(installCommand('constructor', peers)).toBe('npm i constructor');
  });
});
