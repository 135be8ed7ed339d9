/** What a target may offer besides: revoking access, resolving locators, physical clean-up. */
import { must, type Check } from '../check.js';
import { answerOf, eraseAll, plantOrdinary, quiet } from '../drive.js';
import { batchOf } from '../subjects.js';

const revokesAccess: Check = {
  id: 'revokes-access',
  title: "ends every session of the subject and nobody else's, and succeeds where none is left",
  contract: 'WF-13',
  async run({ harness, subjects }) {
    const { target, access } = harness;
    if (target.revoke === undefined) return { notApplicable: 'the target has no revoke' };
    must(access !== undefined, 'the target offers revoke: supply `access` in the harness, so that it can be checked');
    const [subject, other] = [subjects.ordinary(), subjects.ordinary()];
    await access.plant(subject, 3);
    await access.plant(other, 2);
    for (const time of ['first', 'second']) {
      const batch = batchOf([subject, subjects.ordinary()]);
      const answers = await target.revoke(batch, quiet());
      for (const ref of batch.keys()) answerOf(answers, ref, `the ${time} revoke`);
      must((await access.count(subject)) === 0, `sessions of the subject are valid after the ${time} revoke`);
    }
    must((await access.count(other)) === 2, 'a revoke ended the sessions of somebody else');
    return undefined;
  },
};

const locates: Check = {
  id: 'locates',
  title: 'resolves exactly the locators of each subject, and answers with an empty list where there are none',
  contract: 'WF-17',
  async run({ harness, subjects }) {
    const { target, locate } = harness;
    if (target.locate === undefined) return { notApplicable: 'the target has no locate' };
    must(locate !== undefined, 'the target offers locate: supply `locate` in the harness, so that it can be checked');
    const [subject, other, nobody] = [subjects.ordinary(), subjects.ordinary(), subjects.ordinary()];
    const expected = [await locate.plant(subject, 3), await locate.plant(other, 2), {}];
    const batch = batchOf([subject, other, nobody]);
    const answers = await target.locate(batch, locate.queries, quiet());
    for (const [index, ref] of [...batch.keys()].entries()) {
      const found = answerOf(answers, ref, 'locate');
      for (const name of Object.keys(locate.queries)) {
        const wanted = (expected[index] as Record<string, readonly string[]>)[name] ?? [];
        must(
          JSON.stringify([...(found[name] ?? ['absent'])].sort()) === JSON.stringify([...wanted].sort()),
          `locate() answered ${found[name]?.length ?? 'no list of'} values of ${name} where there are ${wanted.length}`,
        );
      }
    }
    return undefined;
  },
};

const cleansUp: Check = {
  id: 'cleans-up',
  title: 'reports a clean-up for each place that it is asked for, and for no other',
  contract: 'WF-23',
  async run(context) {
    const { harness, subjects } = context;
    const { target } = harness;
    if (target.cleanup === undefined) return { notApplicable: 'the target has no cleanup' };
    const subject = subjects.ordinary();
    await plantOrdinary(context, subject, 1);
    await eraseAll(target, [subject]);
    const places = (await target.describe(quiet())).map(({ place }) => place);
    const cleaned = (await target.cleanup(places, quiet())).map(({ place }) => place);
    must(
      JSON.stringify([...cleaned].sort()) === JSON.stringify([...places].sort()),
      `cleanup() reported on [${cleaned.join(', ')}] when it was asked for [${places.join(', ')}]`,
    );
    must((await target.cleanup([], quiet())).length === 0, 'cleanup() of no place reported on some');
    return undefined;
  },
};

export const optionalChecks: readonly Check[] = [revokesAccess, locates, cleansUp];
