/** Calls to targets: bounded in time, complete in their answers, and with every fault in a known class. */
import { describeError } from '../../observe/describe-error.js';
import { findExpungeError } from '../../observe/expunge-error.js';
import type { Outcome } from '../../engine/workflow.js';
import {
  TargetBlockedError,
  TargetDeclarationError,
  TargetError,
  TargetFailedError,
  TargetUnavailableError,
} from '../../targets/target-error.js';
import type { Answers, Place, PlaceCount, SubjectBatch, SubjectRef } from '../../targets/target.js';
import { CALL_LIMIT_MS } from './settings.js';

/**
 * Waits for a target, at most `CALL_LIMIT_MS`: one that accepts and never answers is not reachable.
 * @throws TargetError, whatever the target threw; the reason of `signal` when that ended the wait.
 */
export async function callTarget<T>(
  target: string,
  signal: AbortSignal,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = AbortSignal.timeout(CALL_LIMIT_MS);
  const either = AbortSignal.any([signal, limit]);
  let stop: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => {
      reject(either.reason as Error);
    };
    if (either.aborted) stop();
    else either.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([call(either), aborted]);
  } catch (error) {
    if (signal.aborted) throw error;
    if (limit.aborted) {
      throw new TargetUnavailableError(
        `Target ${target} did not answer within ${CALL_LIMIT_MS / 1000} seconds: it is tried again later.`,
        {
          target,
          cause: 'NO_ANSWER',
        },
      );
    }
    throw asTargetError(target, error);
  } finally {
    if (stop !== undefined) either.removeEventListener('abort', stop);
  }
}

/** A fault that the target did not put into a class is one of the target, and tried again. */
function asTargetError(target: string, error: unknown): TargetError {
  const own = findExpungeError(error);
  if (own instanceof TargetError) return own;
  const { code, message } = describeError(error);
  return new TargetFailedError(`Target ${target} failed: ${message}.`, { target, cause: code }, { cause: error });
}

/** The answer for one subject. One that is missing is a failure (target.ts). */
export function answerFor<T>(target: string, ref: SubjectRef, answers: Answers<T>): T | TargetError {
  return (
    answers.get(ref) ??
    new TargetFailedError(
      `Target ${target} gave no answer for a subject of the batch: its handler has to answer for every ref.`,
      {
        target,
        cause: 'MISSING_ANSWER',
      },
    )
  );
}

/** The counts of one subject, with every place present and none unverifiable. */
export function checkedCounts(
  target: string,
  places: readonly Place[],
  counts: readonly PlaceCount[] | TargetError,
): readonly PlaceCount[] | TargetError {
  if (counts instanceof TargetError) return counts;
  const counted = new Map(counts.map((count) => [count.place, count]));
  const missing = places.find(({ place }) => !counted.has(place));
  if (missing !== undefined) {
    return new TargetFailedError(
      `Target ${target} did not count ${missing.place}: nothing is known to be gone there.`,
      {
        target,
        place: missing.place,
        cause: 'PLACE_NOT_COUNTED',
      },
    );
  }
  const unclear = counts.find(({ unverifiable }) => unverifiable !== null);
  if (unclear !== undefined) {
    return new TargetFailedError(
      `Target ${target} cannot verify ${unclear.place} (${unclear.unverifiable}): it does not count as clean.`,
      {
        target,
        place: unclear.place,
        cause: unclear.unverifiable ?? 'UNVERIFIABLE',
      },
    );
  }
  return counts;
}

/** A batch answer in which a fault of the whole call stands for every subject. */
export async function answersOrFault<T>(batch: SubjectBatch, call: () => Promise<Answers<T>>): Promise<Answers<T>> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof TargetError)) throw error;
    return new Map([...batch.keys()].map((ref) => [ref, error]));
  }
}

/** The shortest and the longest pause before a target that does not answer is asked again, in seconds. */
const FIRST_PAUSE_SECONDS = 2;
const LONGEST_PAUSE_SECONDS = 300;

/**
 * What a fault means for the stage, told by its class alone.
 * @param pauses - how often in a row the target had to be waited for before.
 */
export function outcomeOf(error: TargetError, pauses: number): Outcome {
  if (error instanceof TargetUnavailableError) {
    const delaySeconds = Math.min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** Math.min(pauses, 20));
    return { kind: 'postponed', why: `${error.code}: ${error.message}`, delaySeconds };
  }
  const retryable = !(error instanceof TargetBlockedError || error instanceof TargetDeclarationError);
  return { kind: 'failed', error: `${error.code}: ${error.message}`, retryable };
}
