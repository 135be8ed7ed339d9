/** The kit as tests of whatever test runner the author of a target uses. */
import { CheckFailure } from './check.js';
import { checks } from './checks/index.js';
import type { ConformanceOptions } from './harness.js';
import { leftOut, runCheck } from './run-checks.js';

/** Milliseconds that one check may take; runners without such a parameter ignore it. */
const CHECK_MS = 120_000;

interface Test {
  (title: string, body: () => Promise<void>, timeout?: number): unknown;
  readonly skip?: (title: string, body: () => Promise<void>) => unknown;
}

/** The two functions that every test runner has: vitest, jest, mocha and `node:test`. */
export interface TestRunner {
  readonly describe: (title: string, body: () => void) => unknown;
  readonly it: Test;
}

/**
 * Declares one test for each rule that a target has to keep. A rule that cannot be checked, because the harness does not
 * make the fault that it takes, is a skipped test that says so.
 *
 * @param runner - the runner's `describe` and `it`; by default the global ones.
 * @throws CheckFailure where there are neither.
 *
 * @example
 * import { describe, it } from 'vitest';
 * import { describeTarget } from 'expunge/testing';
 * import { openHarness } from './harness.js';
 *
 * describeTarget('my store', { open: openHarness, identifiers: ['customerId'] }, { describe, it });
 */
export function describeTarget(name: string, options: ConformanceOptions, runner: TestRunner = globalRunner()): void {
  const { describe, it } = runner;
  describe(`${name} keeps the contract of targets`, () => {
    for (const check of checks) {
      const title = `${check.contract} ${check.id}: ${check.title}`;
      const missing = leftOut(check, options);
      const body = async (): Promise<void> => {
        await runCheck(check, options);
      };
      if (missing === null) it(title, body, CHECK_MS);
      else if (it.skip !== undefined) it.skip(`${title} (not checked: ${missing})`, body);
    }
  });
}

function globalRunner(): TestRunner {
  const { describe, it } = globalThis as Partial<TestRunner>;
  if (describe === undefined || it === undefined) {
    throw new CheckFailure(
      'describeTarget() finds no global describe and it: pass those of your test runner as { describe, it }',
    );
  }
  return { describe, it };
}
