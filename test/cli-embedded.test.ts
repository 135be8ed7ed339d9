import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { saidOn, startProcess } from './support/cli.js';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'expunge-embedded-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const start = (...args: readonly string[]) =>
  startProcess(args, { cwd: directory, env: { EXPUNGE_DATABASE_URL: undefined } });

test('OP-11: the group needs neither server nor configuration, and one process at a time works on the embedded database', async () => {
  const submitted = await start('user-deletions', 'submit', '--target', 'demo:alpha', '--requested-by', 'anna').ended;
  expect(submitted).toMatchObject({ code: 0, stderr: '' });
  const { id, inventory_digest } = JSON.parse(submitted.stdout) as { id: string; inventory_digest: string };
  expect(existsSync(join(directory, '.expunge'))).toBe(true);
  const consent = ['--approved-by', 'ben', '--inventory-digest', inventory_digest];
  expect(await start('user-deletions', 'approve', id, ...consent).ended).toMatchObject({ code: 0 });

  const { child, ended } = startProcess(['user-deletions', 'run', id, '--stage-delay-ms', '600000'], {
    cwd: directory,
    env: { EXPUNGE_DATABASE_URL: undefined, EXPUNGE_LOG: 'info' },
  });
  await saidOn(child, 'stage_started');
  const refused = await start('user-deletions', 'list').ended;
  expect(refused).toMatchObject({ code: 2, stdout: '' });
  expect(refused.stderr).toMatch(/^expunge: [^\n]*EXPUNGE_DATABASE_URL[^\n]*\n$/);
  child.kill('SIGINT');
  expect((await ended).code).toBe(130);

  const shown = await start('user-deletions', 'show', id).ended;
  expect(JSON.parse(shown.stdout)).toMatchObject({ request: { lease_owner: null, retry_count: 0 } });
});
