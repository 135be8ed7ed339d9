import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';

/** One thing that is wrong with a configuration. Free of secrets and of personal data: it may be printed. */
export interface ConfigProblem {
  /** Where: `approvals.expireAfter`. Empty for the configuration as a whole. */
  readonly path: string;
  /** What stands there: `nothing`, `the number 0`, `an unknown field`. Text is quoted only from fields that hold no secrets. */
  readonly found: string;
  /** What should stand there: `an ISO 8601 duration such as P7D`. */
  readonly expected: string;
}

/**
 * A configuration is wrong. The message is one sentence about the first problem; `problems` has them all.
 */
export class ConfigError extends ExpungeError {
  readonly code = 'CONFIG_INVALID';
  readonly outcome: ErrorOutcome = 'refused';
  /** At least one. */
  readonly problems: readonly [ConfigProblem, ...ConfigProblem[]];

  constructor(problems: readonly [ConfigProblem, ...ConfigProblem[]]) {
    const more = problems.length - 1;
    super(
      `The configuration is wrong at ${printProblem(problems[0])}${more === 0 ? '' : ` (and ${String(more)} more)`}.`,
    );
    this.problems = problems;
  }

  /** One line a problem, for people. */
  get lines(): readonly string[] {
    return this.problems.map(printProblem);
  }
}

/** The configuration file is not there, or running it failed. The cause, where there is one, may hold anything: never print it. */
export class ConfigLoadError extends ExpungeError {
  readonly code = 'CONFIG_NOT_LOADED';
  readonly outcome: ErrorOutcome = 'refused';
}

function printProblem({ path, found, expected }: ConfigProblem): string {
  return `${path === '' ? 'its top' : path}: found ${found}, expected ${expected}`;
}
