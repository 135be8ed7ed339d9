/** What is wrong although every field is right by itself: fields that name each other, or exclude each other. */
import { isExpungeError } from '../observe/expunge-error.js';
import { type IdentifierDeclarations, normaliseIdentifier } from '../subject/identifier.js';
import type { TargetDeclaration } from '../targets/target.js';
import type { ConfigProblem } from './config-error.js';
import { printPath } from './config-issues.js';
import type { ParsedConfig } from './config-schema.js';
import { canEndBefore, type IsoDuration } from './iso-duration.js';

type Declarations = Readonly<Record<string, TargetDeclaration>>;

/** All contradictions in `config`; none where it can be used. */
export function findContradictions(config: ParsedConfig): readonly ConfigProblem[] {
  const { identifiers, key } = config.subject;
  return [
    ...unknownName(['subject', 'key'], key, Object.keys(identifiers), 'the declared identifiers'),
    ...Object.entries(config.targets).flatMap(([name, declaration]) => usesOf(name, declaration, config)),
    ...locatorCircles(config.targets),
    ...protectedValues(config.protected, identifiers),
    ...shortTombstones(config),
  ];
}

function unknownName(
  path: readonly PropertyKey[],
  used: string,
  known: readonly string[],
  what: string,
): readonly ConfigProblem[] {
  if (known.includes(used)) return [];
  const list = known.length === 0 ? 'of which there is none' : known.join(', ');
  return [{ path: printPath(path), found: `another name, ${printPath([used])}`, expected: `one of ${what}, ${list}` }];
}

/** The identifiers, other targets and fence that a target refers to. */
function usesOf(
  name: string,
  { identifiers, locators, fence }: TargetDeclaration,
  config: ParsedConfig,
): ConfigProblem[] {
  const declared = Object.keys(config.subject.identifiers);
  const fences = Object.keys(config.fences);
  const others = Object.keys(config.targets).filter((other) => other !== name);
  return [
    ...identifiers.flatMap((used, index) =>
      unknownName(['targets', name, 'identifiers', index], used, declared, 'the declared identifiers'),
    ),
    ...(typeof fence === 'string' ? unknownName(['targets', name, 'fence'], fence, fences, 'the fences') : []),
    ...Object.entries(locators).flatMap(([locator, { target }]) =>
      unknownName(['targets', name, 'locators', locator, 'target'], target, others, 'the other targets'),
    ),
  ];
}

/** Locators are resolved before anything is deleted; in a circle nobody could begin. */
function locatorCircles(targets: Declarations): ConfigProblem[] {
  const waiting = new Map(
    Object.entries(targets).map(([name, { locators }]) => [name, Object.values(locators).map((it) => it.target)]),
  );
  // Whoever waits for nobody that is left is resolved first, and so on; a circle, and whoever waits for it, stays.
  let ready: string[];
  do {
    ready = [...waiting].filter(([, sources]) => sources.every((source) => !waiting.has(source))).map(([name]) => name);
    for (const name of ready) waiting.delete(name);
  } while (ready.length > 0);
  if (waiting.size === 0) return [];
  const circle = followCircle(waiting);
  return [
    {
      path: printPath(['targets', circle[0] ?? '', 'locators']),
      found: `a circle, ${[...circle, circle[0] ?? ''].join(' needs ')}`,
      expected: 'targets of which one can be located without the others',
    },
  ];
}

/** One circle among targets of which each waits for another one of them. */
function followCircle(waiting: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const way: string[] = [];
  let next = [...waiting.keys()][0];
  while (next !== undefined && !way.includes(next)) {
    way.push(next);
    next = waiting.get(next)?.find((source) => waiting.has(source));
  }
  return next === undefined ? way : way.slice(way.indexOf(next));
}

function protectedValues(lists: ParsedConfig['protected'], identifiers: IdentifierDeclarations): ConfigProblem[] {
  return Object.entries(lists).flatMap(([name, values]) => {
    const declaration = Object.hasOwn(identifiers, name) ? identifiers[name] : undefined;
    if (declaration === undefined) {
      const expected = `one of the declared identifiers, ${Object.keys(identifiers).join(', ')}`;
      return [{ path: printPath(['protected', name]), found: 'an identifier that is not declared', expected }];
    }
    return (values ?? []).flatMap((value, index) => {
      if (isReadable(name, declaration, value)) return [];
      const expected = 'a value that this identifier can have';
      return [{ path: printPath(['protected', name, index]), found: 'one that it cannot', expected }];
    });
  });
}

function isReadable(...identifier: Parameters<typeof normaliseIdentifier>): boolean {
  try {
    normaliseIdentifier(...identifier);
    return true;
  } catch (error) {
    if (isExpungeError(error, 'INVALID_SUBJECT')) return false;
    throw error;
  }
}

/** A tombstone that goes before the last writer or backup lets the data return (contract REG-6). */
function shortTombstones({ tombstones, settle, backups }: ParsedConfig): ConfigProblem[] {
  const limits: readonly (readonly [string, IsoDuration])[] = [
    ['settle.after', settle.after],
    ['backups.horizon', backups.horizon],
  ];
  return limits.flatMap(([field, limit]) => {
    if (!canEndBefore(tombstones.keep, limit)) return [];
    return [
      { path: 'tombstones.keep', found: tombstones.keep.iso, expected: `never less than ${field}, ${limit.iso}` },
    ];
  });
}
