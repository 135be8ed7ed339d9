import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const kit = new URL('../dist/testing/index.js', import.meta.url).href;

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'expunge-kit-'));
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** Runs a file of tests with Node's own runner, and answers its report. */
async function nodeTest(name: string, source: string): Promise<{ status: number; report: string }> {
  const file = join(directory, name);
  await writeFile(file, source);
  const { NODE_OPTIONS: _, NODE_TEST_CONTEXT: __, ...env } = process.env;
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--test', '--test-reporter=tap', file],
      { env, cwd: fileURLToPath(new URL('..', import.meta.url)), maxBuffer: 1 << 26 },
      (error, stdout) => {
        resolve({ status: typeof error?.code === 'number' ? error.code : 0, report: stdout });
      },
    );
  });
}

describe('the conformance kit under another test runner', () => {
  it('passes a correct target, and skips by name what its harness cannot do', async () => {
    const { status, report } = await nodeTest(
      'memory.test.mjs',
      `import { describe, it } from 'node:test';
       import { describeTarget, memoryConformance } from ${JSON.stringify(kit)};
       describeTarget('memory', { ...memoryConformance(), faults: ['down', 'slow', 'half'] }, { describe, it });`,
    );
    expect(report).toContain("(not checked: the harness does not make the fault 'silent') # SKIP");
    expect({ status, fail: /# fail (\d+)/.exec(report)?.[1], skipped: /# skipped (\d+)/.exec(report)?.[1] }).toEqual({
      status: 0,
      fail: '0',
      skipped: '2',
    });
  });

  it('fails a broken target at the check for it', async () => {
    const { status, report } = await nodeTest(
      'broken.test.mjs',
      `import { describe, it } from 'node:test';
       import { brokenTargets, describeTarget, memoryConformance } from ${JSON.stringify(kit)};
       describeTarget('broken', memoryConformance(brokenTargets['compares with LIKE'].Target), { describe, it });`,
    );
    expect(status).toBe(1);
    expect(report).toMatch(/not ok \d+ - WF-14 matches-no-pattern: takes no character of a value for a wildcard/);
    expect(/# fail (\d+)/.exec(report)?.[1]).toBe('1');
  });
});
