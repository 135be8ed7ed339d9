/** Stores that are down, slow, unreliable or untruthful: an error that says so, and never a false zero. */
import { TargetError } from '../../targets/target-error.js';
import type { Target, TargetSubject } from '../../targets/target.js';
import { CheckFailure, must, type Check, type CheckContext } from '../check.js';
import { countOne, eraseAll, matched, matchedOf, plantOrdinary, quiet, retryable } from '../drive.js';
import type { FaultKind } from '../harness.js';
import { batchOf } from '../subjects.js';

/** Calls after which a fault that hits half of them has hit one. */
const MANY_CALLS = 40;
/** How long a call may take to end after its signal was aborted. A limit for what hangs. */
const ABORT_MS = 5_000;

/** The code of the error with which the call ended, or null where it ended well. */
async function errorOf(name: string, call: () => Promise<unknown>): Promise<string | null> {
  try {
    const answer = await call();
    if (!(answer instanceof Map)) return null;
    const first = [...(answer as Map<string, unknown>).values()][0];
    return first instanceof TargetError ? first.code : null;
  } catch (error) {
    if (error instanceof TargetError) return error.code;
    const found = error instanceof Error ? error.constructor.name : typeof error;
    throw new CheckFailure(`${name}() ended with ${found}, which is no TargetError: give it one of the four classes`, {
      cause: error,
    });
  }
}

function countCall(target: Target, subject: TargetSubject, signal: AbortSignal): Promise<unknown> {
  return target.count(batchOf([subject]), signal);
}

function eraseCall(target: Target, subject: TargetSubject, signal: AbortSignal): Promise<unknown> {
  const starting = new Map([...batchOf([subject])].map(([ref, member]) => [ref, { ...member, cursor: null }]));
  return target.erase(starting, { limit: 2, signal });
}

/** Runs `body` under the fault, undoes it, and sees that the target is as good as before. */
async function under(
  context: CheckContext,
  kind: FaultKind,
  body: (subject: TargetSubject, copies: number) => Promise<void>,
): Promise<void> {
  const { harness, subjects } = context;
  const subject = subjects.ordinary();
  const copies = await plantOrdinary(context, subject, 4);
  const undo = await harness.fault(kind);
  try {
    await body(subject, copies);
  } finally {
    await undo();
  }
  await harness.plant(subject, 1, subjects.secret());
  must((await matchedOf(harness.target, subject)) > 0, `count() does not see copies again after the fault '${kind}'`);
  await eraseAll(harness.target, [subject]);
}

const waitsForADownStore: Check = {
  id: 'waits-for-a-store-that-is-down',
  title: 'answers TargetUnavailableError while the store is down, in every call, and works again when it is back',
  contract: 'WF-29',
  fault: 'down',
  async run(context) {
    const { target } = context.harness;
    await under(context, 'down', async (subject) => {
      for (const [name, call] of [
        ['describe', () => target.describe(quiet())],
        ['count', () => countCall(target, subject, quiet())],
        ['erase', () => eraseCall(target, subject, quiet())],
      ] as const) {
        const code = await errorOf(name, call);
        must(
          code === 'TARGET_UNAVAILABLE',
          `${name}() ${code === null ? 'ended well' : `ended with ${code}`} while the store was down, not with TARGET_UNAVAILABLE`,
        );
      }
    });
  },
};

const endsWhenAborted: Check = {
  id: 'ends-when-aborted',
  title: 'ends a call soon after its signal is aborted, while the store does not answer',
  contract: 'WF-29',
  fault: 'slow',
  async run(context) {
    const { target } = context.harness;
    await under(context, 'slow', async (subject, copies) => {
      for (const [name, make] of [
        ['count', (signal: AbortSignal) => countCall(target, subject, signal)],
        ['erase', (signal: AbortSignal) => eraseCall(target, subject, signal)],
      ] as const) {
        const controller = new AbortController();
        const call = make(controller.signal).then(
          (answer) => ({ answer }),
          (error: unknown) => ({ error }),
        );
        // Lets the call get as far as the store. Nothing depends on it: an abort that comes earlier has to end it too.
        await pause(50);
        controller.abort(new Error('aborted by the conformance kit'));
        const outcome = await settled(call);
        must(outcome !== null, `${name}() goes on after its signal was aborted`);
        if ('answer' in outcome && name === 'count') mustBeTrue(outcome.answer, copies);
      }
    });
  },
};

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** What the call came to, or null where it still goes on after `ABORT_MS`. */
async function settled<T>(call: Promise<T>): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<null>((resolve) => {
    timer = setTimeout(() => {
      resolve(null);
    }, ABORT_MS);
  });
  try {
    return await Promise.race([call, limit]);
  } finally {
    clearTimeout(timer);
  }
}

function mustBeTrue(answers: unknown, copies: number): void {
  const answer = [...(answers as ReadonlyMap<string, unknown>).values()][0];
  if (answer instanceof TargetError) return;
  const found = matched(answer as Parameters<typeof matched>[0]);
  must(found === copies, `an aborted count() answered ${found} where ${copies} copies are`);
}

const admitsFailures: Check = {
  id: 'admits-failures',
  title:
    'answers with an error or the truth while half of the calls to its store fail, and comes to its end by trying again',
  contract: 'WF-19, WF-29',
  fault: 'half',
  async run(context) {
    const { harness } = context;
    const { target } = harness;
    await under(context, 'half', async (subject, copies) => {
      let failures = 0;
      for (let call = 0; call < MANY_CALLS; call += 1) {
        const found = await retryable(() => matchedOf(target, subject));
        if (found === null) failures += 1;
        else must(found === copies, `count() answered ${found} for ${copies} copies while half of the calls failed`);
      }
      must(failures > 0, `no call of ${MANY_CALLS} ended with an error while half of the calls to the store failed`);
      let ended = false;
      for (let call = 0; call < MANY_CALLS && !ended; call += 1) {
        ended = (await retryable(() => eraseAll(target, [subject], { limit: 2 })))?.ended === true;
      }
      let left: number | null = null;
      for (let call = 0; call < MANY_CALLS && left === null; call += 1) {
        left = await retryable(() => matchedOf(target, subject));
      }
      must(
        !ended || left === 0 || left === null,
        `erase() said that it was done with ${left} copies left, while half of the calls failed`,
      );
    });
  },
};

const believesNoDelete: Check = {
  id: 'believes-no-delete',
  title: 'counts what is there, whatever the deletes reported',
  contract: 'WF-19',
  fault: 'silent',
  async run(context) {
    const { target } = context.harness;
    await under(context, 'silent', async (subject, copies) => {
      await retryable(() => eraseAll(target, [subject], { slices: 20 }));
      const found = matched(await countOne(target, subject));
      must(found === copies, `count() finds ${found} of ${copies} copies after deletes that removed nothing`);
    });
  },
};

const missesItsPlaces: Check = {
  id: 'misses-its-places',
  title: 'answers with an error, and never with zero, where a declared place is gone',
  contract: 'WF-12',
  fault: 'missing',
  async run(context) {
    const { target } = context.harness;
    await under(context, 'missing', async (subject) => {
      for (const [name, call] of [
        ['describe', () => target.describe(quiet())],
        ['count', () => countCall(target, subject, quiet())],
        ['erase', () => eraseCall(target, subject, quiet())],
      ] as const) {
        must((await errorOf(name, call)) !== null, `${name}() ended well where a declared place was gone`);
      }
    });
  },
};

export const faultChecks: readonly Check[] = [
  waitsForADownStore,
  endsWhenAborted,
  admitsFailures,
  believesNoDelete,
  missesItsPlaces,
];
