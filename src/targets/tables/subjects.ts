/** The subjects of a call, as statements name them. */
import { TargetBlockedError, type TargetError } from '../target-error.js';
import type { Answers, SubjectBatch, SubjectRef, TargetSubject } from '../target.js';
import { type BoundPlace, rootColumns } from './bound-place.js';

/** Subjects in a fixed order; a row of an answer names its subject by the position, from 1. */
export class Subjects {
  readonly refs: readonly SubjectRef[];
  readonly #subjects: readonly TargetSubject[];

  constructor(batch: ReadonlyMap<SubjectRef, TargetSubject>) {
    this.refs = [...batch.keys()];
    this.#subjects = [...batch.values()];
  }

  get size(): number {
    return this.refs.length;
  }

  /** The ref at a position that an answer named. */
  at(position: number): SubjectRef {
    return this.refs[position - 1]!;
  }

  values(identifier: string): readonly string[] {
    return this.#subjects.map(({ identifiers }) => identifiers[identifier]!);
  }

  only(wanted: (ref: SubjectRef) => boolean): Subjects {
    return new Subjects(new Map(this.refs.flatMap((ref, at) => (wanted(ref) ? [[ref, this.#subjects[at]!]] : []))));
  }

  halves(): readonly [Subjects, Subjects] {
    const first = new Set(this.refs.slice(0, Math.ceil(this.size / 2)));
    return [this.only((ref) => first.has(ref)), this.only((ref) => !first.has(ref))];
  }
}

/** Answers subjects whose identifiers can be used by `ask`, and the others by an error: never by a count of zero. */
export async function answerUsable<S extends TargetSubject, T>(
  target: string,
  places: readonly BoundPlace[],
  batch: SubjectBatch<S>,
  ask: (usable: SubjectBatch<S>) => Promise<Answers<T>>,
): Promise<Answers<T>> {
  const needed = new Set(places.flatMap(identifiersOf));
  const failures = new Map<SubjectRef, TargetError>();
  for (const [ref, { identifiers }] of batch) {
    const missing = [...needed].find((name) => !Object.hasOwn(identifiers, name) || identifiers[name] === '');
    if (missing !== undefined) failures.set(ref, missingIdentifier(target, missing));
  }
  const usable = new Map([...batch].filter(([ref]) => !failures.has(ref)));
  const answers = usable.size > 0 ? await ask(usable) : new Map<SubjectRef, T | TargetError>();
  return new Map([...batch.keys()].map((ref) => [ref, failures.get(ref) ?? answers.get(ref)!]));
}

function missingIdentifier(target: string, identifier: string): TargetError {
  return new TargetBlockedError(
    `Target "${target}" needs the identifier "${identifier}" of every subject, and one has none or an empty one; submit it with the identifier.`,
    { target },
  );
}

/** Names of the identifiers that a place needs. */
function identifiersOf(place: BoundPlace): readonly string[] {
  return rootColumns(place).map(({ identifier }) => identifier);
}
