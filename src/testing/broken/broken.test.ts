import { describe, expect, it } from 'vitest';
import { checks } from '../checks/index.js';
import { memoryConformance } from '../memory-harness.js';
import { runChecks } from '../run-checks.js';
import { brokenTargets } from './index.js';

describe('a broken target', () => {
  it.concurrent.each(Object.entries(brokenTargets))(
    'that %s is caught by the check for it, and by no other',
    async (_, broken) => {
      const results = await runChecks(memoryConformance(broken.Target));
      const failed = results.filter(({ status }) => status === 'failed');
      expect(Object.fromEntries(failed.map(({ id, reason }) => [id, reason]))).toEqual(
        Object.fromEntries(broken.caughtBy.map((id) => [id, expect.any(String)])),
      );
      // Caught by the rule, and not by an accident of the harness.
      for (const { error } of failed) expect(error).toHaveProperty('code', 'CONFORMANCE');
    },
  );

  it('stands for every check', () => {
    const shown = new Set(Object.values(brokenTargets).flatMap(({ caughtBy }) => caughtBy));
    expect(checks.map(({ id }) => id).filter((id) => !shown.has(id))).toEqual([]);
  });
});
