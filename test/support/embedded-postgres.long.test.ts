import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { startEmbeddedPostgres } from './embedded-postgres.js';
import { answers, ask } from './postgres-probe.js';

test('a server that a killed run left is ended by the next one, and one of a run under way is not', async () => {
  const abandoned = await startEmbeddedPostgres();
  const directory = await directoryOf(abandoned.url);
  const underWay = await startEmbeddedPostgres();
  try {
    expect(await answers(abandoned.url)).toBe(true);
    writeFileSync(join(directory, 'owner'), String(idOfAnEndedProcess()));

    const next = await startEmbeddedPostgres();
    await next.stop();

    expect(existsSync(directory)).toBe(false);
    await expect.poll(() => answers(abandoned.url), { timeout: 60_000 }).toBe(false);
    expect(await answers(underWay.url)).toBe(true);
  } finally {
    const own = await directoryOf(underWay.url);
    await underWay.stop();
    expect(existsSync(own)).toBe(false);
  }
});

async function directoryOf(url: string): Promise<string> {
  const found = await ask(url, 'SHOW data_directory');
  return dirname(String(found?.['data_directory']));
}

function idOfAnEndedProcess(): number {
  return spawnSync(process.execPath, ['--version']).pid;
}
