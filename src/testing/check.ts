/** One rule of the contract of targets, as a function that throws where the target breaks it. */
import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';
import type { ConformanceOptions, FaultKind, TargetHarness } from './harness.js';
import type { SubjectMaker } from './subjects.js';

export interface CheckContext {
  readonly harness: TargetHarness;
  /** Makes subjects that fit the target. */
  readonly subjects: SubjectMaker;
  readonly options: ConformanceOptions;
}

export interface Check {
  /** Stable and short, for reports: `erases-pages`. */
  readonly id: string;
  /** Completes the sentence "a target ...". */
  readonly title: string;
  /** The number of the contract that it checks. */
  readonly contract: string;
  /** The fault that it needs; it is left out where the harness cannot make it. */
  readonly fault?: FaultKind;
  /**
   * @returns why the check says nothing about this target, where that is so.
   * @throws CheckFailure where the target breaks the rule.
   */
  run(context: CheckContext): Promise<NotApplicable | void>;
}

/** A check that has nothing to look at: the target does not offer what it is about. */
export interface NotApplicable {
  readonly notApplicable: string;
}

/** A target breaks a rule. The message says which, what was expected and what was found. */
export class CheckFailure extends ExpungeError {
  readonly code = 'CONFORMANCE';
  readonly outcome: ErrorOutcome = 'failed';
}

/** @throws CheckFailure with this message, unless `condition` holds. */
export function must(condition: boolean, message: string): asserts condition {
  if (!condition) throw new CheckFailure(message);
}
