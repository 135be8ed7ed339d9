/** The kit for those who use no test runner, and the one place where a check gets its store. */
import { TargetError } from '../targets/target-error.js';
import type { Target } from '../targets/target.js';
import { CheckFailure, type Check } from './check.js';
import { checks } from './checks/index.js';
import type { ConformanceOptions, FaultKind, TargetHarness } from './harness.js';
import { SubjectMaker } from './subjects.js';
import { WatchedHarness } from './watched-harness.js';

/** The faults that every harness is expected to make. */
const EXPECTED_FAULTS: readonly FaultKind[] = ['down', 'slow', 'half'];

export interface CheckResult {
  readonly id: string;
  readonly title: string;
  /** The number of the contract that it checks. */
  readonly contract: string;
  readonly status: 'passed' | 'failed' | 'not applicable';
  /** What broke, or why the check says nothing about this target; null where it passed. */
  readonly reason: string | null;
  /** What was thrown, where the check failed. */
  readonly error: unknown;
}

/** Why a check cannot be run with these options, or null. */
export function leftOut(check: Check, options: ConformanceOptions): string | null {
  if (check.fault === undefined || faultsOf(options).includes(check.fault)) return null;
  return `the harness does not make the fault '${check.fault}'`;
}

function faultsOf(options: ConformanceOptions): readonly FaultKind[] {
  return options.faults ?? EXPECTED_FAULTS;
}

/**
 * Runs one check on a store of its own.
 *
 * @returns why the check says nothing about this target, or null where it passed.
 * @throws CheckFailure where the target breaks the rule, or whatever the target or the harness throws.
 */
export async function runCheck(check: Check, options: ConformanceOptions): Promise<string | null> {
  const harness = await options.open();
  const opened: Target[] = [harness.target];
  const watched = new WatchedHarness(closingWhatItOpens(harness, opened, options.exclusive === true));
  try {
    const outcome = await check.run({
      harness: watched,
      subjects: new SubjectMaker(options),
      options: { ...options, faults: faultsOf(options) },
    });
    return outcome?.notApplicable ?? null;
  } catch (error) {
    if (!(error instanceof TargetError)) throw error;
    const { code, message } = error;
    throw new CheckFailure(`${watched.lastCall} ended with ${code} where it had to end well: ${message}`, {
      cause: error,
    });
  } finally {
    for (const target of opened) await target.close();
    await harness.close();
  }
}

/** The harness, with a list of what is open; an exclusive store is closed before it is opened again. */
function closingWhatItOpens(harness: TargetHarness, opened: Target[], exclusive: boolean): TargetHarness {
  return {
    get target() {
      return exclusive ? (opened[0] ?? harness.target) : harness.target;
    },
    ...(harness.access && { access: harness.access }),
    ...(harness.locate && { locate: harness.locate }),
    plant: (subject, copies, secret) => harness.plant(subject, copies, secret),
    fingerprint: (subject) => harness.fingerprint(subject),
    fault: (kind) => harness.fault(kind),
    close: () => harness.close(),
    reopen: async () => {
      if (exclusive) for (const target of opened.splice(0)) await target.close();
      const target = await harness.reopen();
      opened.push(target);
      return target;
    },
  };
}

/**
 * Runs every check, one after the other, each on a store of its own, and answers what came of each.
 *
 * @example
 * const results = await runChecks({ open, identifiers: ['customerId'] });
 * for (const { id, reason } of results.filter(({ status }) => status === 'failed')) console.log(id, reason);
 */
export async function runChecks(options: ConformanceOptions): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = [];
  for (const check of checks) results.push(await resultOf(check, options));
  return results;
}

async function resultOf(check: Check, options: ConformanceOptions): Promise<CheckResult> {
  const { id, title, contract } = check;
  const missing = leftOut(check, options);
  if (missing !== null) return { id, title, contract, status: 'not applicable', reason: missing, error: null };
  try {
    const reason = await runCheck(check, options);
    return { id, title, contract, status: reason === null ? 'passed' : 'not applicable', reason, error: null };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { id, title, contract, status: 'failed', reason, error };
  }
}
