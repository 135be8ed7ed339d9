/**
 * Plain JSON at run time: what the type `JsonValue` promises, checked. A printer of JSON turns a Date into text, an undefined
 * member into nothing and NaN into null without a word; whatever is digested, sealed or compared is checked first.
 */
import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';
import type { JsonValue } from './json.js';

/** The deepest nesting of arrays and objects that is accepted; deeper input would exhaust the stack of a recursive reader. */
export const MAX_JSON_DEPTH = 128;

/** A value that should be digested, signed or sealed is not plain JSON. The message names the place, never the value. */
export class NotPlainJsonError extends ExpungeError {
  readonly code = 'NOT_PLAIN_JSON';
  readonly outcome: ErrorOutcome = 'failed';

  /** @param path - where, as a JSONPath of array indexes and harmless keys. @param found - what is there instead of JSON. */
  constructor(path: string, found: string) {
    super(
      `The value at ${path} is ${found}, which is not plain JSON; give strings, finite numbers, booleans, null, arrays and plain objects only.`,
    );
  }
}

/**
 * Asserts that `value` survives JSON unchanged.
 *
 * @throws NotPlainJsonError naming the first place that would not: undefined, functions, symbols, BigInt, NaN and infinities,
 *   Dates and other class instances, accessors, sparse arrays, cycles, lone surrogates in keys or values, and nesting over
 *   {@link MAX_JSON_DEPTH}.
 */
export function assertPlainJson(value: unknown): asserts value is JsonValue {
  assertPlain(value, [], new Set());
}

/** Where the walk is. One array that grows and shrinks with it: a copy for every value took most of the time of a digest. */
type Path = (string | number)[];

function assertPlain(value: unknown, path: Path, ancestors: Set<object>): void {
  switch (typeof value) {
    case 'boolean':
      return;
    case 'string':
      if (!value.isWellFormed()) throw refuse(path, 'a string with a lone surrogate');
      return;
    case 'number':
      if (!Number.isFinite(value)) throw refuse(path, 'a number that is not finite');
      return;
    case 'object':
      if (value !== null) assertPlainContainer(value, path, ancestors);
      return;
    case 'bigint':
    case 'function':
    case 'symbol':
    case 'undefined':
      throw refuse(path, `of type ${typeof value}`);
  }
}

function assertPlainContainer(value: object, path: Path, ancestors: Set<object>): void {
  if (ancestors.has(value)) throw refuse(path, 'a reference to one of its own parents');
  if (path.length >= MAX_JSON_DEPTH) throw refuse(path, `nested deeper than ${MAX_JSON_DEPTH} levels`);
  ancestors.add(value);
  if (Array.isArray(value)) assertPlainArray(value, path, ancestors);
  else assertPlainObject(value, path, ancestors);
  ancestors.delete(value);
}

function assertPlainArray(value: readonly unknown[], path: Path, ancestors: Set<object>): void {
  if (Object.getPrototypeOf(value) !== Array.prototype) throw refuse(path, 'an instance of a class');
  // Holes have no key of their own and extra properties have one, so either changes the number of keys.
  if (Reflect.ownKeys(value).length !== value.length + 1) throw refuse(path, 'an array with holes or extra properties');
  for (let index = 0; index < value.length; index += 1) {
    const item = dataProperty(value, index, path);
    path.push(index);
    assertPlain(item, path, ancestors);
    path.pop();
  }
}

function assertPlainObject(value: object, path: Path, ancestors: Set<object>): void {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw refuse(path, 'an instance of a class');
  for (const key of Reflect.ownKeys(value)) {
    if (typeof key === 'symbol') throw refuse(path, 'an object with a symbol as a key');
    if (!key.isWellFormed()) throw refuse(path, 'an object with a lone surrogate in a key');
    const item = dataProperty(value, key, path);
    path.push(key);
    assertPlain(item, path, ancestors);
    path.pop();
  }
}

/** The value of an own property, read without running a getter: its answer could differ from one read to the next. */
function dataProperty(owner: object, key: string | number, path: Path): unknown {
  const property = Object.getOwnPropertyDescriptor(owner, key);
  if (property === undefined) throw refuse(path, 'an array with holes or extra properties');
  if (!('value' in property) || property.enumerable !== true) {
    throw refuse([...path, key], 'an accessor or a hidden property');
  }
  return property.value;
}

function refuse(path: Path, found: string): NotPlainJsonError {
  return new NotPlainJsonError(printPath(path), found);
}

/** Prints a path; a key that does not look like a declared name may hold anything and is replaced. */
function printPath(path: Path): string {
  const steps = path.slice(0, 16).map((step) => {
    if (typeof step === 'number') return `[${step}]`;
    return /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/.test(step) ? `.${step}` : '[?]';
  });
  return `$${steps.join('')}${path.length > 16 ? '…' : ''}`;
}
