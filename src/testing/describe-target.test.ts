import { describe, expect, it } from 'vitest';
import { checks } from './checks/index.js';
import { describeTarget, type TestRunner } from './describe-target.js';
import { ForgetsThePlace } from './broken/erasing.js';
import type { TargetHarness } from './harness.js';
import { memoryConformance } from './memory-harness.js';
import { runChecks } from './run-checks.js';

/** A test runner that notes what it is given. */
function recorder(): TestRunner & { tests: Map<string, () => Promise<void>>; skipped: string[] } {
  const tests = new Map<string, () => Promise<void>>();
  const skipped: string[] = [];
  const note = (title: string, body: () => Promise<void>): void => void tests.set(title, body);
  const skip = (title: string): void => void skipped.push(title);
  return {
    tests,
    skipped,
    describe: (_title, body) => {
      body();
    },
    it: Object.assign(note, { skip }),
  };
}

describe('describeTarget', () => {
  it('declares a test for each check, and skips by name what the harness cannot do', () => {
    const runner = recorder();
    describeTarget('memory', { ...memoryConformance(), faults: ['down', 'slow', 'half'] }, runner);
    expect(runner.tests.size).toBe(checks.length - 2);
    expect(runner.skipped).toEqual([
      expect.stringContaining("does not make the fault 'silent'"),
      expect.stringContaining("does not make the fault 'missing'"),
    ]);
  });

  it('declares tests that fail with a sentence', async () => {
    const runner = recorder();
    describeTarget('broken', memoryConformance(ForgetsThePlace), runner);
    const body = [...runner.tests].find(([title]) => title.includes('erases every copy'))?.[1];
    await expect(body?.()).rejects.toThrow('3 copies are left in mails after an erase');
  });

  it('names what is missing where there is no test runner', () => {
    expect(() => {
      describeTarget('memory', memoryConformance());
    }).toThrow('pass those of your test runner as { describe, it }');
  });
});

describe('runChecks', () => {
  it('gives every check a store of its own and closes all that it opened, also when a check fails', async () => {
    const options = memoryConformance(ForgetsThePlace);
    let [opened, closed, targets] = [0, 0, 0];
    const counted = (harness: TargetHarness): TargetHarness => {
      const tracked = (target: TargetHarness['target']): TargetHarness['target'] => {
        targets += 1;
        const close = target.close.bind(target);
        return Object.assign(target, {
          close: async () => {
            targets -= 1;
            await close();
          },
        });
      };
      return {
        ...harness,
        target: tracked(harness.target),
        reopen: async () => tracked(await harness.reopen()),
        close: async () => void (closed += 1),
      };
    };
    const results = await runChecks({
      ...options,
      open: async () => {
        opened += 1;
        return counted(await options.open());
      },
    });
    expect(results.filter(({ status }) => status === 'failed').map(({ id }) => id)).toEqual(['erases-everything']);
    expect({ opened, closed, targets }).toEqual({ opened: checks.length, closed: checks.length, targets: 0 });
  });

  it('closes an exclusive store before it opens it again', async () => {
    const options = memoryConformance();
    let [now, most] = [0, 0];
    const tracked = (target: TargetHarness['target']): TargetHarness['target'] => {
      now += 1;
      most = Math.max(most, now);
      const isClosed = (): Promise<never> => Promise.reject(new Error('the kit uses a target that it has closed'));
      return Object.assign(target, {
        close: async () => {
          now -= 1;
          Object.assign(target, { describe: isClosed, count: isClosed, erase: isClosed });
        },
      });
    };
    const results = await runChecks({
      ...options,
      exclusive: true,
      open: async () => {
        const harness = await options.open();
        return { ...harness, target: tracked(harness.target), reopen: async () => tracked(await harness.reopen()) };
      },
    });
    expect(results.filter(({ status }) => status === 'failed')).toEqual([]);
    expect(results.find(({ id }) => id === 'works-beside-another')?.status).toBe('not applicable');
    expect({ now, most }).toEqual({ now: 0, most: 1 });
  });
});
