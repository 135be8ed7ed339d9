/** How a command ends, in a number that a script can branch on (contract OP-7). */
import type { RunEnd } from '../engine/advance.js';
import { type ErrorOutcome, findExpungeError } from '../observe/expunge-error.js';

export const EXIT = {
  done: 0,
  /** The work failed. */
  failed: 1,
  /** Refused, and nothing changed. */
  refused: 2,
  /** Wrong usage of the program. */
  usage: 64,
  /** The database cannot be reached. */
  unavailable: 69,
  /** To be continued. */
  continue: 75,
} as const satisfies Record<ErrorOutcome | 'done', number>;

/** By the class of the error, never by its text. */
export function exitCodeOf(error: unknown): number {
  const own = findExpungeError(error);
  return own === null ? EXIT.failed : EXIT[own.outcome];
}

/**
 * @param stopped - the exit code of the signal that stopped the process; null where none came.
 * @param stepwise - whether the run was to do one step only, so that having done it is success.
 */
export function exitCodeOfRun(end: RunEnd, stopped: number | null, stepwise: boolean): number {
  switch (end.kind) {
    case 'ended':
      return EXIT.done;
    case 'waiting':
      return end.status === 'retry_wait' || end.status === 'blocked' ? EXIT.failed : EXIT.continue;
    case 'budget':
      return stepwise ? EXIT.done : EXIT.continue;
    case 'interrupted':
      return stopped ?? EXIT.continue;
    case 'error':
      return exitCodeOf(end.error);
  }
}
