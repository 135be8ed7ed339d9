/** Whom an erase touches: exactly the subject, and nobody else (contract WF-14). */
import { TargetError } from '../../targets/target-error.js';
import type { EraseSubject, TargetSubject } from '../../targets/target.js';
import { CheckFailure, must, type Check, type CheckContext } from '../check.js';
import { eraseAll, fingerprints, matchedOf, planted, plantOrdinary, quiet } from '../drive.js';
import {
  affixPairs,
  batchOf,
  foldingPairs,
  hostileValues,
  longPairs,
  patternPairs,
  type ValuePair,
} from '../subjects.js';

const leavesOthersAlone: Check = {
  id: 'leaves-others-alone',
  title: 'leaves everybody alone who is not in the batch, wherever their keys sort',
  contract: 'WF-14',
  async run(context) {
    const { harness, subjects } = context;
    const everybody = subjects.several(12);
    for (const subject of everybody) await plantOrdinary(context, subject, 2);
    const bystanders = everybody.filter((_, index) => index % 2 === 1);
    const before = await fingerprints(context, bystanders);
    await eraseAll(
      harness.target,
      everybody.filter((_, index) => index % 2 === 0),
    );
    const after = await fingerprints(context, bystanders);
    const touched = before.filter((print, index) => print !== after[index]).length;
    must(touched === 0, `an erase of others changed the copies of ${touched} subjects who were not in the batch`);
  },
};

/** What an erase leaves of a subject whose values are harmless; hard values may not make it more. */
async function leftOfAnybody(context: CheckContext): Promise<number> {
  const subject = context.subjects.ordinary();
  await plantOrdinary(context, subject, 2);
  await eraseAll(context.harness.target, [subject]);
  return matchedOf(context.harness.target, subject);
}

/** Plants both, erases the victim, and looks at both. */
async function erasesOnlyTheVictim(
  context: CheckContext,
  victim: TargetSubject,
  neighbour: TargetSubject,
  names: ValuePair,
  left: number,
): Promise<void> {
  const { harness, subjects } = context;
  const [whom, whomNot] = names.map((name) => JSON.stringify(name.length > 40 ? `${name.slice(0, 40)}...` : name));
  const copies = planted(await harness.plant(victim, 2, subjects.secret()));
  await harness.plant(neighbour, 2, subjects.secret());
  const print = await harness.fingerprint(neighbour);
  const seen = await tellingWhom(`count() of ${whom}`, () => matchedOf(harness.target, victim));
  must(seen === copies, `count() of ${whom} finds ${seen} copies where ${copies} were planted, beside ${whomNot}`);
  await tellingWhom(`erase() of ${whom}`, () => eraseAll(harness.target, [victim]));
  const found = await matchedOf(harness.target, victim);
  must((await harness.fingerprint(neighbour)) === print, `an erase of ${whom} touched the copies of ${whomNot}`);
  must(found <= left, `${found} copies of ${whom} are left after an erase`);
  await tellingWhom(`erase() of ${whomNot}`, () => eraseAll(harness.target, [neighbour]));
}

/** Adds to a failure whose values it was about; they are the kit's own. */
async function tellingWhom<T>(what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof CheckFailure) throw new CheckFailure(`${what}: ${error.message}`, { cause: error });
    if (error instanceof TargetError) throw new CheckFailure(`${what} ended with ${error.code}`, { cause: error });
    throw error;
  }
}

function matchesExactly(id: string, title: string, pairs: readonly ValuePair[]): Check {
  return {
    id,
    title,
    contract: 'WF-14',
    async run(context) {
      const { subjects } = context;
      const left = await leftOfAnybody(context);
      for (const pair of pairs) {
        const [victim, neighbour] = [subjects.withValue(pair[0]), subjects.withValue(pair[1])];
        await erasesOnlyTheVictim(context, victim, neighbour, pair, left);
      }
    },
  };
}

const hostile: Check = {
  id: 'takes-values-literally',
  title: 'takes values literally that mean something to SQL, JSON, a path, a shell, a template or JavaScript',
  contract: 'WF-14',
  async run(context) {
    const { subjects } = context;
    const left = await leftOfAnybody(context);
    for (const value of hostileValues) {
      const names: ValuePair = [value, 'an ordinary subject'];
      await erasesOnlyTheVictim(context, subjects.withValue(value), subjects.ordinary(), names, left);
    }
  },
};

const comparesEveryColumn: Check = {
  id: 'compares-every-column',
  title: 'compares every column of a composite key',
  contract: 'WF-14',
  async run(context) {
    const { subjects, options } = context;
    const columns = options.composite ?? [];
    if (columns.length < 2) return { notApplicable: 'the target has no composite key' };
    const left = await leftOfAnybody(context);
    for (const column of columns) {
      const victim = subjects.ordinary();
      const neighbour = subjects.sharingAllBut(column, columns, victim);
      const names: ValuePair = ['a subject', `one that differs in ${column} alone`];
      await erasesOnlyTheVictim(context, victim, neighbour, names, left);
    }
    return undefined;
  },
};

const refusesNobody: Check = {
  id: 'refuses-an-empty-key',
  title: 'refuses a subject without a value before it touches anything: an empty key is nobody, and never everybody',
  contract: 'WF-9',
  async run(context) {
    const { subjects, options } = context;
    const bystanders = subjects.several(2);
    for (const subject of bystanders) await plantOrdinary(context, subject, 2);
    const before = await fingerprints(context, bystanders);
    const ordinary = subjects.ordinary();
    const nobodies: [string, TargetSubject][] = [['every value empty', subjects.withValue('')]];
    for (const name of options.identifiers) {
      nobodies.push([`an empty ${name}`, { ...ordinary, identifiers: { ...ordinary.identifiers, [name]: '' } }]);
      nobodies.push([`no ${name}`, { ...ordinary, identifiers: without(ordinary.identifiers, name) }]);
    }
    for (const name of options.locators ?? []) {
      nobodies.push([`an empty ${name}`, { ...ordinary, locators: { ...ordinary.locators, [name]: [''] } }]);
      nobodies.push([`no ${name} resolved`, { ...ordinary, locators: without(ordinary.locators, name) }]);
    }
    for (const [what, nobody] of nobodies) {
      const refused = await isRefused(context, nobody);
      must(
        JSON.stringify(await fingerprints(context, bystanders)) === JSON.stringify(before),
        `an erase of a subject with ${what} touched the copies of others`,
      );
      must(refused, `count() or erase() of a subject with ${what} ended well: it has to be refused with a TargetError`);
    }
  },
};

function without<V>(record: Readonly<Record<string, V>>, name: string): Record<string, V> {
  return Object.fromEntries(Object.entries(record).filter(([key]) => key !== name));
}

async function isRefused({ harness }: CheckContext, nobody: TargetSubject): Promise<boolean> {
  const batch = batchOf([nobody]);
  const starting = new Map<string, EraseSubject>(
    [...batch].map(([ref, subject]) => [ref, { ...subject, cursor: null }]),
  );
  const counting = await endsWithError(() => harness.target.count(batch, quiet()));
  const erasing = await endsWithError(() => harness.target.erase(starting, { limit: 100, signal: quiet() }));
  return counting && erasing;
}

async function endsWithError(call: () => Promise<ReadonlyMap<string, unknown>>): Promise<boolean> {
  try {
    return [...(await call()).values()].every((answer) => answer instanceof TargetError);
  } catch (error) {
    if (error instanceof TargetError) return true;
    throw error;
  }
}

export const matchingChecks: readonly Check[] = [
  leavesOthersAlone,
  matchesExactly('matches-no-affix', 'takes no value for another that begins, ends or goes on with it', affixPairs),
  matchesExactly('matches-no-pattern', 'takes no character of a value for a wildcard', patternPairs),
  matchesExactly('folds-nothing', 'folds no case, accent, space, width or number', foldingPairs),
  matchesExactly('compares-long-values', 'compares long values to their last character', longPairs),
  hostile,
  comparesEveryColumn,
  refusesNobody,
];
