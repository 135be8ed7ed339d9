/** Drives a target as the engine does: slice after slice, saving every cursor as JSON, and counting independently. */
import type { JsonValue } from '../storage/json.js';
import { TargetError } from '../targets/target-error.js';
import type { Answers, EraseProgress, PlaceCount, SubjectRef, Target, TargetSubject } from '../targets/target.js';
import { must, type CheckContext } from './check.js';
import type { PlantedPlace } from './harness.js';
import { batchOf } from './subjects.js';

/** More than anything that the kit plants: the whole erase in one slice, where the target can. */
export const WHOLE = 10_000;

/** A signal that is never aborted. */
export const quiet = (): AbortSignal => new AbortController().signal;

/**
 * The answer for this ref.
 *
 * @throws CheckFailure where there is none; the TargetError with which the target answered.
 */
export function answerOf<T>(answers: Answers<T>, ref: SubjectRef, call: string): T {
  const answer = answers.get(ref);
  must(answer !== undefined, `${call} gave no answer for a subject of the batch: every ref has to be answered`);
  if (answer instanceof TargetError) throw answer;
  return answer;
}

/** Counts one subject. */
export async function countOne(target: Target, subject: TargetSubject): Promise<readonly PlaceCount[]> {
  const batch = batchOf([subject]);
  const answers = await target.count(batch, quiet());
  return answerOf(answers, [...batch.keys()][0] as SubjectRef, 'count');
}

/** What is still to be erased, over all places. */
export function matched(counts: readonly PlaceCount[]): number {
  return counts.reduce((sum, count) => sum + count.matched, 0);
}

/** What is still to be erased of one subject, over all places. */
export async function matchedOf(target: Target, subject: TargetSubject): Promise<number> {
  return matched(await countOne(target, subject));
}

/** The copies that were planted, over all places. */
export function planted(places: readonly PlantedPlace[]): number {
  return places.reduce((sum, place) => sum + place.copies, 0);
}

/** Plants copies of an ordinary subject, which every store has to be able to hold. */
export async function plantOrdinary(
  { harness, subjects }: CheckContext,
  subject: TargetSubject,
  copies: number,
): Promise<number> {
  const places = await harness.plant(subject, copies, subjects.secret());
  must(
    places.length > 0 && places.every((place) => place.copies > 0),
    'plant() of the harness left a place without a copy of an ordinary subject: every place that it names needs one',
  );
  return planted(places);
}

/** What an erase was like. */
export interface EraseRun {
  /** Whether the target said `done` for every subject; false where it was stopped after too many slices. */
  readonly ended: boolean;
  readonly slices: number;
  /** What the target said that it removed. */
  readonly reported: number;
  /** The saved cursors of the first subject, one a slice. */
  readonly cursors: readonly JsonValue[];
}

export interface EraseRunOptions {
  /** The limit of one slice. */
  readonly limit?: number;
  /** Where to start from; null by default. */
  readonly cursor?: JsonValue;
  /** Slices after which a target is believed never to end. */
  readonly slices?: number;
  /** Called after a slice that was not the last; answers the target to go on with and whether the cursors are lost. */
  afterSlice?(slice: number, target: Target): Promise<{ readonly target: Target; readonly cursorsLost: boolean }>;
}

/** Erases until the target says that it is done, or until it has had many more slices than it can need. */
export async function eraseAll(
  first: Target,
  subjects: readonly TargetSubject[],
  options: EraseRunOptions = {},
): Promise<EraseRun> {
  const { limit = WHOLE, slices: most = 200 } = options;
  const batch = batchOf(subjects);
  const cursors = new Map<SubjectRef, JsonValue>([...batch.keys()].map((ref) => [ref, options.cursor ?? null]));
  const leading = [...batch.keys()][0] as SubjectRef;
  const seen: JsonValue[] = [];
  let target = first;
  let reported = 0;
  for (let slice = 1; slice <= most; slice += 1) {
    const answers = await eraseSlice(target, batch, cursors, limit);
    for (const progress of answers.values()) reported += progress.reported.reduce((sum, entry) => sum + entry.rows, 0);
    if (answers.has(leading)) seen.push(answers.get(leading)?.cursor ?? null);
    for (const [ref, progress] of answers) {
      if (progress.done) cursors.delete(ref);
      else cursors.set(ref, saved(progress.cursor));
    }
    if (cursors.size === 0) return { ended: true, slices: slice, reported, cursors: seen };
    if (options.afterSlice !== undefined) {
      const next = await options.afterSlice(slice, target);
      target = next.target;
      if (next.cursorsLost) for (const ref of cursors.keys()) cursors.set(ref, null);
    }
  }
  return { ended: false, slices: most, reported, cursors: seen };
}

/** One slice for those subjects of the batch that still have a cursor. */
async function eraseSlice(
  target: Target,
  batch: ReadonlyMap<SubjectRef, TargetSubject>,
  cursors: ReadonlyMap<SubjectRef, JsonValue>,
  limit: number,
): Promise<ReadonlyMap<SubjectRef, EraseProgress>> {
  const slice = new Map(
    [...cursors].map(([ref, cursor]) => [ref, { ...(batch.get(ref) as TargetSubject), cursor }] as const),
  );
  const answers = await target.erase(slice, { limit, signal: quiet() });
  return new Map([...slice.keys()].map((ref) => [ref, answerOf(answers, ref, 'erase')]));
}

/** A cursor as it comes back from the database. */
export function saved(cursor: JsonValue): JsonValue {
  return cursor === undefined ? null : (JSON.parse(JSON.stringify(cursor)) as JsonValue);
}

/** The answer, or null where the call failed in a way that another try may mend. */
export async function retryable<T>(call: () => Promise<T>): Promise<T | null> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof TargetError && ['TARGET_UNAVAILABLE', 'TARGET_FAILED'].includes(error.code)) return null;
    throw error;
  }
}

/** Reads fingerprints of several subjects. */
export async function fingerprints(
  { harness }: CheckContext,
  subjects: readonly TargetSubject[],
): Promise<readonly string[]> {
  const prints: string[] = [];
  for (const subject of subjects) prints.push(await harness.fingerprint(subject));
  return prints;
}
