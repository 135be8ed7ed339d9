import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { commandLine, openWorkplace, startProcess, type Workplace } from './support/cli.js';
import { describeWithPostgres } from './support/postgres.js';
import { submitted } from './support/training.js';

/** Writes the URL of every module that is loaded to standard error. */
const loader = `data:text/javascript,${encodeURIComponent(
  `import { register } from 'node:module';
   register('data:text/javascript,' + encodeURIComponent(
     "export async function load(url, context, next) { process._rawDebug(url); return next(url, context); }"));`,
)}`;

test('help and wrong usage load the parser and nothing heavy', async () => {
  for (const args of [['--help'], ['user-deletions', 'run', '--help'], ['show', 'nonsense']]) {
    const { stderr } = await startProcess(args, { env: { NODE_OPTIONS: `--import "${loader}"` } }).ended;
    expect(stderr).toContain('/commander/');
    for (const heavy of [
      '/kysely/',
      '/pg/',
      '/pino/',
      '/jose/',
      '/zod/',
      '/jiti/',
      '/pglite/',
      '/temporal-polyfill/',
    ]) {
      expect({ args, heavy, isLoaded: stderr.includes(`/node_modules${heavy}`) }).toMatchObject({ isLoaded: false });
    }
  }
});

test('receipts verify needs neither database nor configuration, and says what is wrong with an export', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'expunge-verify-'));
  try {
    writeFileSync(join(directory, 'receipts.jwks.json'), '{"keys": []}');
    const { code, stdout, stderr } = await startProcess(['receipts', 'verify', '-', '--keys', 'receipts.jwks.json'], {
      cwd: directory,
      env: { EXPUNGE_DATABASE_URL: 'nonsense' },
      input: 'nonsense',
    }).ended;
    expect({ code, stderr }).toEqual({ code: 1, stderr: '' });
    expect(JSON.parse(stdout)).toMatchObject({ verified: false });
  } finally {
    rmSync(directory, { recursive: true });
  }
  const missing = await startProcess(['receipts', 'verify', 'nowhere.json', '--keys', 'nowhere.jwks.json'], {}).ended;
  expect(missing).toMatchObject({ code: 2, stdout: '' });
  expect(missing.stderr).toMatch(/^expunge: The file nowhere[^\n]+ENOENT[^\n]+\n$/);
});

describeWithPostgres('the process', () => {
  let workplace: Workplace;
  beforeAll(async () => {
    workplace = await openWorkplace();
  });
  afterAll(() => workplace.close());

  test('a reader that goes away is no fault of the command', async () => {
    const { id } = await submitted(workplace);
    const child = spawn(process.execPath, [commandLine, 'show', id], {
      cwd: workplace.directory,
      env: { ...process.env, EXPUNGE_DATABASE_URL: workplace.url },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.destroy();
    let stderr = '';
    child.stderr.on('data', (text: Buffer) => (stderr += text.toString()));
    const [code] = (await once(child, 'close')) as [number | null];
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  test('OP-11: a broken configuration does not keep the group from its database, and is heard of', async () => {
    const file = `${workplace.directory}/expunge.config.mjs`;
    writeFileSync(file, 'export default { targets: {}, subjekt: {} };\n');
    try {
      const group = await workplace.expunge('user-deletions', 'list');
      expect(group.code).toBe(0);
      expect(group.stderr).toContain('EXPUNGE_DATABASE_URL alone');
      const outside = await workplace.expunge('list');
      expect(outside).toMatchObject({ code: 2, stdout: '' });
      // One line for each thing that is wrong.
      expect(outside.stderr).toMatch(/^(expunge: The configuration is wrong at [^\n]+\n){2,}$/);
    } finally {
      rmSync(file);
    }
  });

  test('a worker without a configuration is refused, so that it blocks nothing', async () => {
    const refused = await workplace.expunge('worker', '--once');
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toContain('expunge.config.ts');
  });

  test('an error without a name is one line, and shows where it was only when asked', async () => {
    await workplace.sql('ALTER TABLE entity_deletion_requests RENAME COLUMN reason_code TO reason_number');
    try {
      const args = ['user-deletions', 'submit', '--target', 'demo:secret-name', '--requested-by', 'anna'];
      const plain = await workplace.expunge(...args);
      expect(plain).toMatchObject({ code: 1, stdout: '' });
      expect(plain.stderr).toMatch(/^expunge: [^\n]+42703[^\n]+\n$/);
      const loud = await workplace.start(args, { env: { EXPUNGE_LOG: 'debug' } }).ended;
      expect(loud.stderr).toMatch(/\n {4}at /);
      expect(loud.stderr).not.toContain('secret-name');
    } finally {
      await workplace.sql('ALTER TABLE entity_deletion_requests RENAME COLUMN reason_number TO reason_code');
    }
  });
});
