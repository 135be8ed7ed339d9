/** What a failed statement says about the rows that it was sent with: told by SQLSTATE, never by text. */
import { setTimeout as sleep } from 'node:timers/promises';
import { findExpungeError, isExpungeError } from '../observe/expunge-error.js';

/**
 * `rows`: one of them cannot be written, now or ever; it is looked for and stopped alone.
 * `moment`: others were in the way; the same statement succeeds when it is sent again.
 * `database`: it cannot write anything at present: whatever row is tried fails, and none of them is to blame.
 */
export type Fault = 'rows' | 'moment' | 'database';

/** Serialization failure, deadlock, lock not available. */
const MOMENTS: ReadonlySet<string> = new Set(['40001', '40P01', '55P03']);
/**
 * Read-only (a standby after a failover) and a missing privilege, which belongs to the role and not to the row. Added
 * are the classes 53 (insufficient resources), 57 (operator intervention), 58 (system error), F0 (configuration) and XX
 * (internal error). Source: PostgreSQL, appendix A, "PostgreSQL Error Codes".
 */
const DATABASES: ReadonlySet<string> = new Set(['25006', '42501']);
const DATABASE_CLASSES = /^(53|57|58|F0|XX)/;

/** How often a statement that others were in the way of is sent, before it is given up. */
const ATTEMPTS = 5;
/** The pause before the second attempt, in milliseconds, on average; each further one doubles it. */
const PAUSE_MS = 20;

export function faultOf(error: unknown): Fault {
  if (isExpungeError(error, 'DATABASE_UNAVAILABLE')) return 'database';
  const state = sqlstateOf(error);
  if (state === null) return 'rows';
  if (MOMENTS.has(state)) return 'moment';
  return DATABASES.has(state) || DATABASE_CLASSES.test(state) ? 'database' : 'rows';
}

/** An error of ours has a code of its own, which is no SQLSTATE, and speaks for itself. */
function sqlstateOf(error: unknown): string | null {
  if (findExpungeError(error) !== null) return null;
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : null;
}

/**
 * Sends a statement, or a whole transaction, again while others are in its way.
 * @throws what it threw last.
 */
export async function sendAgain<R>(send: () => Promise<R>): Promise<R> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await send();
    } catch (error) {
      if (attempt === ATTEMPTS || faultOf(error) !== 'moment') throw error;
      // Spread, so that those who met do not meet again.
      await sleep(PAUSE_MS * 2 ** (attempt - 1) * (0.5 + Math.random()));
    }
  }
}
