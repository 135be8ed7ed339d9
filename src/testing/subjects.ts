/** The subjects that the kit plants: ordinary ones, and pairs that a careless comparison takes for one another. */
import { randomBytes } from 'node:crypto';
import type { SubjectBatch, SubjectRef, TargetSubject } from '../targets/target.js';
import type { ConformanceOptions } from './harness.js';

/** How many values an ordinary subject has of each locator. */
const LOCATOR_VALUES = 3;

/** Two values that are different people: erasing the first must leave the second alone. No list has a victim twice. */
export type ValuePair = readonly [victim: string, neighbour: string];

/** One value is the beginning, the end or the middle of the other. */
export const affixPairs: readonly ValuePair[] = [
  ['u/1', 'u/10'],
  ['u1', 'u10'],
  ['1', '10'],
  ['ann', 'ann@example.org'],
  ['org', 'ann@example.org'],
  ['part', 'a-part-of-it'],
  ['a', 'a/b'],
  ['c', 'c:d'],
  ['p', 'p.pdf'],
];

/** One value is a pattern of SQL, of a shell, of a regular expression or of a query language that matches the other. */
export const patternPairs: readonly ValuePair[] = [
  ['a_b', 'axb'],
  ['100%', '1000'],
  ['%', 'x'],
  ['_', 'y'],
  ['*', 'z'],
  ['a*', 'ab'],
  ['?', 'w'],
  ['[ab]', 'a'],
  ['{a,b}', 'b'],
  ['.*', 'q'],
  ['a.c', 'abc'],
  ['a|b', 'a'],
  ['~ab', 'ab'],
];

/** Two spellings that a collation, a file system or a number parser takes for one. */
export const foldingPairs: readonly ValuePair[] = [
  ['Ann', 'ann'],
  ['\u00e9', 'e\u0301'],
  ['\u00df', 'ss'],
  ['\u0130', 'i'],
  ['\uff41', 'a'],
  ['\u00e9t\u00e9', 'ete'],
  ['b ', 'b'],
  [' c', 'c'],
  ['d\t', 'd'],
  ['f.', 'f'],
  ['g\u200b', 'g'],
  ['007', '7'],
  ['1.0', '1'],
  ['1e3', '1000'],
  ['0x10', '16'],
];

/** Values that mean something to an interpreter on the way: SQL, JSON, a path, a shell, a template, JavaScript itself. */
export const hostileValues: readonly string[] = [
  '.',
  '..',
  '/',
  '../other',
  'a/b',
  'a\\b',
  '/etc/passwd',
  '-rf',
  "O'Brien",
  "' OR '1'='1",
  '"; DROP TABLE customer; --',
  '`id`',
  '$1',
  '${customerId}',
  '{customerId}',
  '__proto__',
  'constructor',
  'toString',
  'null',
  'undefined',
  'NaN',
  'true',
  '{"$ne":null}',
  'a,b',
  'a\nb',
  'a\r\nDEL *',
  '\u{1f600}',
  '\u202eabc',
];

/** Values that differ only at the end of many characters. */
export const longPairs: readonly ValuePair[] = [64, 128, 255, 256, 1000].map((length) => [
  `${'k'.repeat(length - 1)}1`,
  `${'k'.repeat(length - 1)}2`,
]);

/** Makes the subjects of one check. */
export class SubjectMaker {
  readonly #run = randomBytes(6).toString('hex');
  readonly #identifiers: readonly string[];
  readonly #locators: readonly string[];
  #made = 0;

  constructor(options: Pick<ConformanceOptions, 'identifiers' | 'locators'>) {
    this.#identifiers = options.identifiers;
    this.#locators = options.locators ?? [];
  }

  /** Nobody else has any of its values, and they sort in the order in which the subjects were made. */
  ordinary(): TargetSubject {
    this.#made += 1;
    const id = `kit${this.#run}-${String(this.#made).padStart(5, '0')}`;
    return {
      identifiers: fromEntries(this.#identifiers.map((name, index) => [name, `${id}-${index}`])),
      locators: fromEntries(
        this.#locators.map((name) => [name, Array.from({ length: LOCATOR_VALUES }, (_, n) => `${id}-${name}-${n}`)]),
      ),
    };
  }

  /** Made earlier than any that are made later. */
  several(count: number): TargetSubject[] {
    return Array.from({ length: count }, () => this.ordinary());
  }

  /** A subject whose every identifier and locator is `value`. */
  withValue(value: string): TargetSubject {
    return {
      identifiers: fromEntries(this.#identifiers.map((name) => [name, value])),
      locators: fromEntries(this.#locators.map((name) => [name, [value]])),
    };
  }

  /** Somebody else who shares every column of a composite key with `subject` but one. */
  sharingAllBut(column: string, composite: readonly string[], subject: TargetSubject): TargetSubject {
    const other = this.ordinary();
    const shared = composite.filter((name) => name !== column);
    return {
      ...other,
      identifiers: {
        ...other.identifiers,
        ...fromEntries(shared.map((name) => [name, subject.identifiers[name] ?? ''])),
      },
    };
  }

  /** A text that occurs nowhere else. */
  secret(): string {
    return `secret-${randomBytes(9).toString('hex')}`;
  }
}

/** Gives each subject an opaque ref, as the engine does. */
export function batchOf(subjects: readonly TargetSubject[]): SubjectBatch {
  return new Map(subjects.map((subject): [SubjectRef, TargetSubject] => [randomBytes(8).toString('hex'), subject]));
}

function fromEntries<V>(entries: readonly (readonly [string, V])[]): Record<string, V> {
  return Object.fromEntries(entries);
}
