import { closeSync, openSync, readFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { commandLine, openWorkplace, until, type Workplace } from './support/cli.js';
import { describeWithPostgres } from './support/postgres.js';
import { fillIn, patternOf, readTranscript, type Step } from './support/transcript.js';

const page = readFileSync(new URL('../docs/operator-guide.md', import.meta.url), 'utf8');

describeWithPostgres('docs/operator-guide.md', () => {
  let workplace: Workplace;
  beforeAll(async () => {
    workplace = await openWorkplace();
    // The page begins with an empty database.
    await workplace.sql('DROP SCHEMA expunge CASCADE');
  });
  afterAll(() => workplace.close());

  test('every command does what the page says', async () => {
    const steps = readTranscript(page);
    expect(steps.length).toBeGreaterThan(20);
    const known = new Map<string, string>();
    for (const step of steps) {
      const { code, output } = await run(step, fillIn(step, known));
      const where = `line ${step.line}: expunge ${step.words.join(' ')}`;
      const pattern = patternOf(step, known);
      expect(output, where).toMatch(pattern);
      expect(code, where).toBe(step.exitCode);
      for (const [name, value] of Object.entries(pattern.exec(output)?.groups ?? {})) known.set(name, value);
    }
  });

  /** With both streams in one file, so that their lines stand in the order in which they were written. */
  async function run(step: Step, words: readonly string[]): Promise<{ code: number | null; output: string }> {
    const file = join(workplace.directory, `line-${step.line}`);
    const descriptor = openSync(file, 'a');
    // The page shows what a terminal shows.
    const child = spawn(process.execPath, [commandLine, ...words, '--no-json'], {
      cwd: workplace.directory,
      env: { ...process.env, EXPUNGE_DATABASE_URL: workplace.url, EXPUNGE_LOG: undefined },
      stdio: ['ignore', descriptor, descriptor],
    });
    closeSync(descriptor);
    const closed = once(child, 'close') as Promise<[number | null]>;
    if (step.isInterrupted) {
      await until(async () => {
        const rows = await workplace.sql(`SELECT FROM entity_deletion_stage_history WHERE status = 'running'`);
        return rows.length > 0 || child.exitCode !== null;
      });
      child.kill('SIGINT');
    }
    const [code] = await closed;
    return { code, output: readFileSync(file, 'utf8') };
  }
});
