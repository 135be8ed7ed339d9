/** What a target says of itself. */
import type { Place } from '../../targets/target.js';
import { must, type Check } from '../check.js';
import { countOne, matched, matchedOf, planted, plantOrdinary, quiet } from '../drive.js';

const describesPlaces: Check = {
  id: 'describes-places',
  title: 'describes each of its places once, with a printable name, and with a basis where it keeps something',
  contract: 'WF-6, WF-21',
  async run({ harness }) {
    const places = await harness.target.describe(quiet());
    must(places.length > 0, 'describe() lists no place: a target without places deletes nothing');
    for (const place of places) must(isPrintable(place), 'describe() lists a place without a short printable name');
    must(
      new Set(places.map(({ place }) => place)).size === places.length,
      'describe() lists a place twice: names are unique within a target',
    );
    for (const { place, action, basis } of places) {
      must(action !== 'retain' || Boolean(basis), `place ${place} is retained without a basis`);
    }
    const again = await (await harness.reopen()).describe(quiet());
    must(
      JSON.stringify(again) === JSON.stringify(places),
      'describe() answers otherwise when the target is opened again: what was approved would be another plan',
    );
  },
};

function isPrintable({ place }: Place): boolean {
  return place.length > 0 && place.length <= 200 && !/[\p{Cc}\p{Cs}]/u.test(place);
}

const countsEveryPlace: Check = {
  id: 'counts-every-place',
  title: 'answers a count with every described place, also for a subject that it does not know',
  contract: 'WF-12',
  async run(context) {
    const { harness, subjects } = context;
    const declared = (await harness.target.describe(quiet())).map(({ place }) => place).sort();
    const known = subjects.ordinary();
    await plantOrdinary(context, known, 1);
    for (const [subject, who] of [
      [known, 'a subject with copies'],
      [subjects.ordinary(), 'a subject without copies'],
    ] as const) {
      const counted = (await countOne(harness.target, subject)).map(({ place }) => place).sort();
      must(
        JSON.stringify(counted) === JSON.stringify(declared),
        `count() of ${who} answered for the places [${counted.join(', ')}] and not for [${declared.join(', ')}]`,
      );
    }
  },
};

const countsWhatIsThere: Check = {
  id: 'counts-what-is-there',
  title: 'counts exactly the copies that are there, and none for a subject that has none',
  contract: 'WF-19',
  async run(context) {
    const { harness, subjects } = context;
    const [subject, nobody] = [subjects.ordinary(), subjects.ordinary()];
    const places = await harness.plant(subject, 7, subjects.secret());
    const counts = await countOne(harness.target, subject);
    for (const { place, copies } of places) {
      const found = counts.find((count) => count.place === place)?.matched;
      must(found === copies, `count() finds ${found ?? 'nothing'} in ${place}, where ${copies} copies were planted`);
    }
    must(matched(counts) === planted(places), 'count() finds copies in places where none were planted');
    must((await matchedOf(harness.target, nobody)) === 0, 'count() finds copies of a subject that has none');
    for (const count of counts) {
      must(
        [count.matched, count.retained, count.superseded].every(
          (number) => Number.isSafeInteger(number) && number >= 0,
        ),
        `count() of ${count.place} is not made of whole numbers from zero`,
      );
    }
  },
};

const countsAfresh: Check = {
  id: 'counts-afresh',
  title: 'counts again what somebody else wrote since the last count',
  contract: 'WF-19',
  async run(context) {
    const { harness, subjects } = context;
    const subject = subjects.ordinary();
    await matchedOf(harness.target, subject);
    const copies = await plantOrdinary(context, subject, 2);
    const found = await matchedOf(harness.target, subject);
    must(found === copies, `count() finds ${found} copies after ${copies} were written since the last count`);
  },
};

export const placeChecks: readonly Check[] = [describesPlaces, countsEveryPlace, countsWhatIsThere, countsAfresh];
