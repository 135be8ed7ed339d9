/** Erasing without any disturbance: everything, in bounded slices, to an end. */
import { must, type Check, type CheckContext } from '../check.js';
import { countOne, eraseAll, matchedOf, plantOrdinary, quiet, WHOLE } from '../drive.js';
import { batchOf } from '../subjects.js';

const erasesEverything: Check = {
  id: 'erases-everything',
  title: 'erases every copy in every place, by its own count and by the store itself',
  contract: 'WF-12',
  async run(context) {
    const { harness, subjects } = context;
    const subject = subjects.ordinary();
    const empty = await harness.fingerprint(subject);
    await plantOrdinary(context, subject, 3);
    must(
      (await harness.fingerprint(subject)) !== empty,
      'fingerprint() of the harness does not see what plant() wrote',
    );
    await eraseAll(harness.target, [subject]);
    const counts = await countOne(harness.target, subject);
    for (const { place, matched } of counts)
      must(matched === 0, `${matched} copies are left in ${place} after an erase`);
    if (
      await leavesNothing(
        context,
        counts.reduce((sum, count) => sum + count.retained + count.superseded, 0),
      )
    ) {
      must(
        (await harness.fingerprint(subject)) === empty,
        'the store still holds something of the subject after an erase that the target counts as complete',
      );
    }
  },
};

/** Whether nothing that leads to the subject may be left: nothing is kept, and no value that is a key stays. */
async function leavesNothing({ harness }: CheckContext, kept: number): Promise<boolean> {
  const places = await harness.target.describe(quiet());
  return kept === 0 && places.every(({ action }) => action === 'delete' || action === 'anonymize');
}

const erasesInPages: Check = {
  id: 'erases-pages',
  title: 'leaves no more behind in small slices than in one',
  contract: 'WF-15',
  async run(context) {
    const { harness, subjects } = context;
    const whole = subjects.ordinary();
    await plantOrdinary(context, whole, 6);
    await eraseAll(harness.target, [whole]);
    const left = await matchedOf(harness.target, whole);
    for (const limit of [1, 3, 4]) {
      const subject = subjects.ordinary();
      const copies = await plantOrdinary(context, subject, 6);
      await eraseAll(harness.target, [subject], { limit });
      const found = await matchedOf(harness.target, subject);
      must(found <= left, `${found} of ${copies} copies are left after an erase in slices of ${limit}`);
    }
  },
};

const keepsToTheLimit: Check = {
  id: 'keeps-to-the-limit',
  title: 'erases at most as much as the limit in one slice, over all subjects of the batch together',
  contract: 'WF-15',
  async run(context) {
    const { harness, subjects } = context;
    const several = subjects.several(3);
    for (const subject of several) await plantOrdinary(context, subject, 5);
    const total = async (): Promise<number> => {
      const answers = await Promise.all(several.map((subject) => matchedOf(harness.target, subject)));
      return answers.reduce((sum, found) => sum + found, 0);
    };
    for (const limit of [1, 4]) {
      const before = await total();
      const batch = new Map([...batchOf(several)].map(([ref, subject]) => [ref, { ...subject, cursor: null }]));
      await harness.target.erase(batch, { limit, signal: quiet() });
      const erased = before - (await total());
      must(erased <= limit, `a slice with a limit of ${limit} erased ${erased} copies`);
    }
  },
};

const comesToAnEnd: Check = {
  id: 'comes-to-an-end',
  title: 'says that it is done after a number of slices that what is there explains',
  contract: 'WF-15',
  async run(context) {
    const { harness, subjects } = context;
    for (const limit of [1, 3, 4, WHOLE]) {
      const subject = subjects.ordinary();
      const copies = await plantOrdinary(context, subject, 6);
      const most = 20 + 5 * copies;
      const run = await eraseAll(harness.target, [subject], { limit, slices: most });
      must(run.ended, `erase() is not done after ${most} slices of ${limit} for ${copies} copies`);
    }
  },
};

const answersEverySubject: Check = {
  id: 'answers-every-subject',
  title: 'answers for every subject of a large batch, and for no other, in each call',
  contract: 'WF-12',
  async run(context) {
    const { harness, subjects } = context;
    const several = subjects.several(40);
    for (const subject of several.slice(0, 30)) await plantOrdinary(context, subject, 1);
    const batch = batchOf(several);
    const counted = await harness.target.count(batch, quiet());
    const starting = new Map([...batch].map(([ref, subject]) => [ref, { ...subject, cursor: null }]));
    const erased = await harness.target.erase(starting, { limit: 7, signal: quiet() });
    for (const [call, answers] of [
      ['count', counted],
      ['erase', erased],
    ] as const) {
      const forgotten = [...batch.keys()].filter((ref) => !answers.has(ref)).length;
      must(forgotten === 0, `${call}() gave no answer for ${forgotten} of ${batch.size} subjects`);
      must(answers.size === batch.size, `${call}() answered for subjects that were not in the batch`);
    }
    const none = await harness.target.count(new Map(), quiet());
    must(none.size === 0, 'count() of an empty batch answered for somebody');
  },
};

const erasesMany: Check = {
  id: 'erases-many',
  title: 'erases a large batch as completely as a single subject',
  contract: 'WF-15',
  async run(context) {
    const { harness, subjects } = context;
    const alone = subjects.ordinary();
    await plantOrdinary(context, alone, 2);
    await eraseAll(harness.target, [alone]);
    const left = await matchedOf(harness.target, alone);
    const several = subjects.several(40);
    for (const subject of several) await plantOrdinary(context, subject, 2);
    await eraseAll(harness.target, several);
    for (const [index, subject] of several.entries()) {
      const found = await matchedOf(harness.target, subject);
      must(found <= left, `${found} copies are left of subject ${index + 1} of ${several.length} in one batch`);
    }
  },
};

export const erasingChecks: readonly Check[] = [
  erasesEverything,
  erasesInPages,
  keepsToTheLimit,
  comesToAnEnd,
  answersEverySubject,
  erasesMany,
];
