/**
 * Crashes between slices, and doing again what was done. Each is held against an undisturbed erase of an equal subject:
 * it may not leave more behind (contract WF-28). Whether the undisturbed one is right is for other checks.
 */
import type { Target, TargetSubject } from '../../targets/target.js';
import { must, type Check, type CheckContext } from '../check.js';
import { eraseAll, matchedOf, plantOrdinary, retryable, saved } from '../drive.js';

const COPIES = 7;
const LIMIT = 2;

/** What an undisturbed erase leaves of a subject with as many copies. */
async function undisturbed(context: CheckContext): Promise<number> {
  const subject = context.subjects.ordinary();
  await plantOrdinary(context, subject, COPIES);
  await eraseAll(context.harness.target, [subject], { limit: LIMIT });
  return matchedOf(context.harness.target, subject);
}

async function plantedSubject(context: CheckContext): Promise<TargetSubject> {
  const subject = context.subjects.ordinary();
  await plantOrdinary(context, subject, COPIES);
  return subject;
}

const resumesFromItsCursor: Check = {
  id: 'resumes-from-its-cursor',
  title: 'goes on from the saved cursor in another process, after every slice',
  contract: 'WF-15, WF-28',
  async run(context) {
    const left = await undisturbed(context);
    const subject = await plantedSubject(context);
    let target = context.harness.target;
    await eraseAll(target, [subject], {
      limit: LIMIT,
      afterSlice: async () => {
        target = await context.harness.reopen();
        return { target, cursorsLost: false };
      },
    });
    const found = await matchedOf(target, subject);
    must(found <= left, `${found} copies are left after an erase that went on in another process after every slice`);
  },
};

const resumesWithoutACursor: Check = {
  id: 'resumes-without-a-cursor',
  title: 'starts again from nothing where a crash lost its cursor',
  contract: 'WF-12, WF-28',
  async run(context) {
    const left = await undisturbed(context);
    const subject = await plantedSubject(context);
    let target = context.harness.target;
    let next = 1;
    let gap = 1;
    await eraseAll(target, [subject], {
      limit: LIMIT,
      // After slices 1, 3, 6, 10 ...: every position is lost once, and an erase still comes to its end.
      afterSlice: async (slice, used) => {
        if (slice !== next) return { target: used, cursorsLost: false };
        gap += 1;
        next += gap;
        target = await context.harness.reopen();
        return { target, cursorsLost: true };
      },
    });
    const found = await matchedOf(target, subject);
    must(found <= left, `${found} copies are left after an erase that lost its cursor on the way`);
  },
};

const appliesACursorTwice: Check = {
  id: 'applies-a-cursor-twice',
  title: 'accepts a cursor that was applied before',
  contract: 'WF-12',
  async run(context) {
    const { harness } = context;
    const left = await undisturbed(context);
    const subject = await plantedSubject(context);
    const run = await eraseAll(harness.target, [subject], { limit: LIMIT });
    for (const cursor of run.cursors.filter((applied) => applied !== null)) {
      await eraseAll(harness.target, [subject], { limit: LIMIT, cursor: saved(cursor) });
    }
    const found = await matchedOf(harness.target, subject);
    must(found <= left, `${found} copies are there after old cursors were applied once more`);
  },
};

const looksAgainAfterItsEnd: Check = {
  id: 'looks-again-after-its-end',
  title: 'finds what was written after its last cursor, when it is asked to go on from it',
  contract: 'WF-27',
  async run(context) {
    const { harness } = context;
    const left = await undisturbed(context);
    const subject = await plantedSubject(context);
    const run = await eraseAll(harness.target, [subject]);
    const before = await matchedOf(harness.target, subject);
    await plantOrdinary(context, subject, COPIES);
    await eraseAll(harness.target, [subject], { cursor: saved(run.cursors.at(-1) ?? null) });
    const found = await matchedOf(harness.target, subject);
    must(
      found <= before + left,
      `${found} copies that came back are left: the cursor of the last slice hides them, answer null there`,
    );
  },
};

const erasesWhatIsGone: Check = {
  id: 'erases-what-is-gone',
  title: 'succeeds where nothing is left, and where nothing ever was',
  contract: 'WF-12',
  async run(context) {
    const { harness, subjects } = context;
    const subject = await plantedSubject(context);
    await eraseAll(harness.target, [subject]);
    const left = await matchedOf(harness.target, subject);
    const print = await harness.fingerprint(subject);
    await eraseAll(harness.target, [subject], { slices: 20 });
    must((await matchedOf(harness.target, subject)) <= left, 'a second erase left more behind than the first');
    must(left > 0 || (await harness.fingerprint(subject)) === print, 'a second erase changed what the first had left');
    const never = await eraseAll(harness.target, [subjects.ordinary()], { slices: 20 });
    must(never.reported === 0, `an erase of a subject that never was reported ${never.reported} copies`);
  },
};

const worksBesideAnother: Check = {
  id: 'works-beside-another',
  title: 'comes to the same end when two workers erase the same subject at once',
  contract: 'WF-12, EX-15',
  async run(context) {
    const { harness, options } = context;
    if (options.exclusive === true) return { notApplicable: 'only one process can open the store' };
    const left = await undisturbed(context);
    const subject = await plantedSubject(context);
    const other = await harness.reopen();
    await Promise.all([harness.target, other].map((target) => eraseStubbornly(target, subject)));
    const found = await matchedOf(harness.target, subject);
    must(found <= left, `${found} copies are left after two workers erased the same subject at once`);
    return undefined;
  },
};

/** One may have to wait for the other, or to try again: the engine does both. */
async function eraseStubbornly(target: Target, subject: TargetSubject): Promise<void> {
  for (let attempt = 0; attempt < 10; attempt += 1) {
    if ((await retryable(() => eraseAll(target, [subject], { limit: LIMIT }))) !== null) return;
  }
}

export const interruptionChecks: readonly Check[] = [
  resumesFromItsCursor,
  resumesWithoutACursor,
  appliesACursorTwice,
  looksAgainAfterItsEnd,
  erasesWhatIsGone,
  worksBesideAnother,
];
