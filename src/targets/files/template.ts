/** Templates of paths, such as `customers/{customerId}/` and `invoices/{invoice}.pdf`, and the paths that they stand for. */
import { TargetDeclarationError, TargetFailedError } from '../target-error.js';
import type { TargetSubject } from '../target.js';
import { fileNameOf, type Encoding } from './file-name.js';

/** One name of a path: text around at most one value. */
interface Segment {
  readonly before: string;
  /** The identifier or locator whose value stands here; null in a fixed name. */
  readonly name: string | null;
  readonly after: string;
}

export interface Template {
  /** As it was declared; also the name of the place. */
  readonly text: string;
  readonly segments: readonly Segment[];
  /** The identifiers and locators in it. */
  readonly names: readonly string[];
  /** Whether it stands for a directory with everything below. */
  readonly isDirectory: boolean;
  /** The number of names at its beginning that are fixed: directories that have to be there. */
  readonly fixed: number;
  /**
   * Directories from this segment on belong to one subject alone, since their path holds every identifier of the
   * template (every locator, where it has no identifier). Emptied, they are removed; those before are shared, and stay.
   */
  readonly ownedFrom: number;
}

/** A path below the fixed part of its template. */
export interface SubjectPath {
  readonly names: readonly Buffer[];
  readonly isDirectory: boolean;
  /** As in the template, counted from the first of `names`. */
  readonly ownedFrom: number;
}

/**
 * Reads a template.
 *
 * @param field - where it stands in the declaration, for messages.
 * @throws TargetDeclarationError that says what is wrong with it.
 */
export function parseTemplate(text: string, field: string, locators: readonly string[]): Template {
  const refuse = (why: string): never => {
    throw new TargetDeclarationError(`${field} is ${JSON.stringify(text)}: ${why}`, { target: 'files', place: text });
  };
  if (text.startsWith('/')) refuse('a path is relative to the root');
  if (/[\\*?]|\p{Cc}/u.test(text)) refuse('a path has no wildcard, backslash or control character');
  const isDirectory = text.endsWith('/');
  const parts = (isDirectory ? text.slice(0, -1) : text).split('/');
  if (parts.some((part) => part === '' || part === '.' || part === '..')) {
    refuse("a path has no empty name, no '.' and no '..'");
  }
  const segments = parts.map((part): Segment => {
    const [, before = '', name, after = ''] = /^([^{}]*)(?:\{([^{}]+)\}([^{}]*))?$/.exec(part) ?? refuseSegment(refuse);
    return { before, name: name ?? null, after };
  });
  const names = [...new Set(segments.flatMap(({ name }) => (name === null ? [] : [name])))];
  if (names.length === 0) refuse('a path without a {name} is the same for everybody, and would delete everybody');
  if (names.filter((name) => locators.includes(name)).length > 1) {
    refuse('a path has one locator at most: how two lists of values belong together is not known');
  }
  return {
    text,
    segments,
    names,
    isDirectory,
    fixed: segments.findIndex(({ name }) => name !== null),
    ownedFrom: ownedFrom(segments, names, locators),
  };
}

function refuseSegment(refuse: (why: string) => never): never {
  // With two values in one name, `a-b` and `c` would be the same name as `a` and `b-c`.
  return refuse('a name between two slashes holds one {name} at most, with text before or after it');
}

function ownedFrom(segments: readonly Segment[], names: readonly string[], locators: readonly string[]): number {
  const identifiers = names.filter((name) => !locators.includes(name));
  const missing = new Set(identifiers.length > 0 ? identifiers : names);
  return segments.findIndex(({ name }) => {
    if (name !== null) missing.delete(name);
    return missing.size === 0;
  });
}

/**
 * The paths of one subject, one for each value of the template's locator. A value that cannot stand in a file name has
 * no path: nothing can be stored under it.
 *
 * @throws TargetFailedError where a value is missing or empty: that is nobody's path, and could be everybody's.
 */
export function pathsOf(template: Template, subject: TargetSubject, encode: Encoding, target: string): SubjectPath[] {
  const values = new Map<string, readonly string[]>();
  for (const name of template.names) values.set(name, valuesOf(name, subject, template, target));
  const many = [...values.values()].find((list) => list.length !== 1);
  const turns = many?.length ?? 1;
  const paths: SubjectPath[] = [];
  for (let turn = 0; turn < turns; turn += 1) {
    const names = template.segments.slice(template.fixed).map(({ before, name, after }) => {
      if (name === null) return Buffer.from(before);
      const list = values.get(name) ?? [];
      return fileNameOf(before, list[list.length === 1 ? 0 : turn] ?? '', after, encode);
    });
    if (names.every((name) => name !== null)) {
      paths.push({ names, isDirectory: template.isDirectory, ownedFrom: template.ownedFrom - template.fixed });
    }
  }
  return paths;
}

function valuesOf(name: string, subject: TargetSubject, template: Template, target: string): readonly string[] {
  const { identifiers, locators } = subject;
  const values = Object.hasOwn(identifiers, name)
    ? [identifiers[name] ?? '']
    : Object.hasOwn(locators, name)
      ? [...new Set(locators[name])]
      : null;
  if (values === null || values.includes('')) {
    const what = values === null ? 'no' : 'an empty';
    throw new TargetFailedError(
      `${target} got a subject with ${what} value for {${name}} in ${template.text}: nothing of it was touched`,
      { target, place: template.text, cause: values === null ? 'NO_VALUE' : 'EMPTY_VALUE' },
    );
  }
  return values;
}
