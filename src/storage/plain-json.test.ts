import { describe, expect, it } from 'vitest';
import { assertPlainJson, MAX_JSON_DEPTH, NotPlainJsonError } from './plain-json.js';

class Point {
  readonly x = 1;
}

function cycle(): unknown {
  const value: Record<string, unknown> = {};
  value.deep = [value];
  return value;
}

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level += 1) value = [value];
  return value;
}

const sparse: unknown[] = [1];
sparse[2] = 3;

describe('what is not plain JSON', () => {
  it.each<[string, unknown, string]>([
    ['undefined', undefined, '$'],
    ['an undefined member', { a: { b: undefined } }, '$.a.b'],
    ['an undefined element', [1, undefined], '$[1]'],
    ['NaN', { n: NaN }, '$.n'],
    ['Infinity', [[-Infinity]], '$[0][0]'],
    ['a BigInt', 1n, '$'],
    ['a function', { f: () => 1 }, '$.f'],
    ['a symbol', Symbol('s'), '$'],
    ['a symbol key', { [Symbol('s')]: 1 }, '$'],
    ['a Date', { at: new Date(0) }, '$.at'],
    ['a class instance', { p: new Point() }, '$.p'],
    ['a Map', new Map(), '$'],
    ['a Buffer', Buffer.from('a'), '$'],
    ['a boxed string', Object('a'), '$'],
    ['a toJSON method', { toJSON: () => 'other' }, '$.toJSON'],
    ['a getter', Object.defineProperty({}, 'g', { get: () => 1, enumerable: true }), '$.g'],
    ['a hidden property', Object.defineProperty({}, 'h', { value: 1 }), '$.h'],
    ['a sparse array', sparse, '$'],
    ['an array with a property', Object.assign([1], { extra: 1 }), '$'],
    ['a hole made up for by a property', Object.assign(new Array(1), { extra: 1 }), '$'],
    ['a lone surrogate', { s: 'a\ud800' }, '$.s'],
    ['a lone surrogate in a key', { 'a\udc00': 1 }, '$'],
    ['a cycle', cycle(), '$.deep[0]'],
    ['nesting without end', nested(MAX_JSON_DEPTH + 1), '$[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]…'],
  ])('refuses %s and says where', (_name, value, path) => {
    expect(() => assertPlainJson(value)).toThrow(NotPlainJsonError);
    expect(() => assertPlainJson(value)).toThrow(`The value at ${path} is`);
  });

  it('WF-2: prints neither a value nor a key that is no plain name', () => {
    const refuse = (): void => assertPlainJson({ 'jane@example.com': { s: 'secret\ud800' } });
    expect(refuse).toThrow('The value at $[?].s is');
    expect(refuse).not.toThrow(/secret/);
  });

  it('accepts the deepest nesting that is allowed', () => {
    expect(() => assertPlainJson(nested(MAX_JSON_DEPTH))).not.toThrow();
  });
});
