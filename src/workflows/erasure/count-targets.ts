/** Counts what targets hold of subjects, and resolves on the way what other targets need (WF-17). */
import { TargetError, TargetUnavailableError } from '../../targets/target-error.js';
import type { Answers, Place, SubjectBatch, Target, TargetSubject } from '../../targets/target.js';
import { answerFor, answersOrFault, callTarget, checkedCounts } from './call-target.js';
import type { CountedTarget } from './inventory.js';
import type { OpenTargets } from './open-targets.js';
import type { Locators } from './sealed-subjects.js';

/** One subject as far as counting needs it. What is resolved here is added to `resolved`; what is there stays. */
export interface CountSubject {
  readonly identifiers: Readonly<Record<string, string>>;
  readonly resolved: Map<string, Locators>;
  /** Targets that are not asked about this subject. */
  readonly without?: ReadonlySet<string>;
  /** Whether what was resolved before is asked for again, and what is new added: nothing of its source is gone yet. */
  readonly resolvesAgain?: boolean;
}

export type CountAnswers = ReadonlyMap<string, CountedTarget | TargetError>;

/**
 * @param names - the targets to count, in gate order.
 * @returns by ref, by target.
 */
export async function countTargets(
  targets: OpenTargets,
  names: readonly string[],
  subjects: ReadonlyMap<string, CountSubject>,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, CountAnswers>> {
  const answers = new Map([...subjects.keys()].map((ref) => [ref, new Map<string, CountedTarget | TargetError>()]));
  for (const name of names) {
    const asked = new Map([...subjects].filter(([, { without }]) => without?.has(name) !== true));
    if (asked.size === 0) continue;
    const counted = await countTarget(targets, name, asked, signal);
    for (const [ref, answer] of counted) answers.get(ref)?.set(name, answer);
  }
  return answers;
}

async function countTarget(
  targets: OpenTargets,
  name: string,
  subjects: ReadonlyMap<string, CountSubject>,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, CountedTarget | TargetError>> {
  const target = targets.get(name);
  const { batch, waiting } = batchOf(targets, name, subjects);
  const places = await describe(target, signal);
  if (places instanceof TargetError) return new Map([...subjects.keys()].map((ref) => [ref, places]));
  const located = await locate(targets, name, batch, subjects, signal);
  const counts = await answersOrFault(batch, () => callTarget(name, signal, (limit) => target.count(batch, limit)));
  const answers = new Map<string, CountedTarget | TargetError>(waiting);
  for (const ref of batch.keys()) {
    const own = checkedCounts(name, places, answerFor(name, ref, counts));
    const fault = located.get(ref) ?? (own instanceof TargetError ? own : null);
    answers.set(ref, fault ?? { places, counts: own as CountedTarget['counts'] });
  }
  return answers;
}

/** The subjects as the target takes them; those whose locators are not resolved yet wait for the target that has them. */
export function batchOf(
  targets: OpenTargets,
  name: string,
  subjects: ReadonlyMap<
    string,
    Pick<CountSubject, 'identifiers'> & { readonly resolved: ReadonlyMap<string, Locators> }
  >,
): { readonly batch: SubjectBatch; readonly waiting: ReadonlyMap<string, TargetError> } {
  const batch = new Map<string, TargetSubject>();
  const waiting = new Map<string, TargetError>();
  for (const [ref, { identifiers, resolved }] of subjects) {
    const locators = targets.locatorsFor(name, resolved);
    if (locators === null) waiting.set(ref, locatorsMissing(targets, name));
    else batch.set(ref, { identifiers, locators });
  }
  return { batch, waiting };
}

async function describe(target: Target, signal: AbortSignal): Promise<readonly Place[] | TargetError> {
  try {
    return await callTarget(target.name, signal, (limit) => target.describe(limit));
  } catch (error) {
    if (error instanceof TargetError) return error;
    throw error;
  }
}

type Located = Answers<Readonly<Record<string, readonly string[]>>>;

/** Resolves what others need of this target. Returns the faults. What was resolved before is never replaced by less. */
async function locate(
  targets: OpenTargets,
  name: string,
  batch: SubjectBatch,
  subjects: ReadonlyMap<string, CountSubject>,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, TargetError>> {
  const queries = targets.queriesOf(name);
  const open = new Map(
    [...batch].filter(([ref]) => {
      const subject = subjects.get(ref);
      return subject !== undefined && (subject.resolvesAgain === true || !subject.resolved.has(name));
    }),
  );
  if (Object.keys(queries).length === 0 || open.size === 0) return new Map();
  const target = targets.get(name);
  const answers: Answers<Locators> = await answersOrFault(open, () =>
    callTarget<Located>(
      name,
      signal,
      async (limit) => (await target.locate?.(open, queries, limit)) ?? new Map<string, never>(),
    ),
  );
  const faults = new Map<string, TargetError>();
  for (const ref of open.keys()) {
    const answer = answerFor(name, ref, answers);
    if (answer instanceof TargetError) faults.set(ref, answer);
    else subjects.get(ref)?.resolved.set(name, merged(subjects.get(ref)?.resolved.get(name), answer));
  }
  return faults;
}

function merged(before: Locators = {}, now: Locators): Locators {
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  return Object.fromEntries(
    [...names].map((name) => [name, [...new Set([...(before[name] ?? []), ...(now[name] ?? [])])]]),
  );
}

function locatorsMissing(targets: OpenTargets, name: string): TargetError {
  const sources = [...new Set(Object.values(targets.declaration(name).locators).map(({ target }) => target))].join(
    ', ',
  );
  return new TargetUnavailableError(`Target ${name} waits for what ${sources} has to resolve for it first.`, {
    target: name,
    cause: 'LOCATORS_MISSING',
  });
}
