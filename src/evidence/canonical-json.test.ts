import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../storage/json.js';
import { NotPlainJsonError } from '../storage/plain-json.js';
import { canonicalBytes, canonicalJson, sha256Hex } from './canonical-json.js';

/** Plain JSON with well-formed Unicode of every plane; -0 is left to a test of its own. */
const anyJson = fc
  .jsonValue({ stringUnit: 'binary', maxDepth: 5 })
  .map((value) => withoutNegativeZero(value as JsonValue));

function withoutNegativeZero(value: JsonValue): JsonValue {
  if (value === 0) return 0;
  return mapMembers(value, withoutNegativeZero, (entries) => entries);
}

function withKeysReversed(value: JsonValue): JsonValue {
  return mapMembers(value, withKeysReversed, (entries) => entries.reverse());
}

function mapMembers(
  value: JsonValue,
  map: (member: JsonValue) => JsonValue,
  order: (entries: [string, JsonValue][]) => [string, JsonValue][],
): JsonValue {
  if (Array.isArray(value)) return (value as readonly JsonValue[]).map(map);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value as JsonObject).map(([key, member]): [string, JsonValue] => [key, map(member)]);
  return Object.fromEntries(order(entries));
}

describe('canonicalJson', () => {
  it('EX-25: does not depend on the order of keys', () => {
    fc.assert(fc.property(anyJson, (value) => canonicalJson(withKeysReversed(value)) === canonicalJson(value)));
  });

  it('is JSON of the same value', () => {
    fc.assert(
      fc.property(anyJson, (value) => {
        expect(JSON.parse(canonicalJson(value))).toEqual(value);
      }),
    );
  });

  it('gives different values different texts', () => {
    fc.assert(
      fc.property(anyJson, anyJson, (left, right) => {
        const same = canonicalJson(left) === canonicalJson(right);
        expect(same).toBe(fc.stringify(withKeysSorted(left)) === fc.stringify(withKeysSorted(right)));
      }),
    );
  });

  it('sorts keys by UTF-16 code units, as the example of RFC 8785 section 3.2.3 does', () => {
    const value = { '€': 1, '\r': 2, '\ufb33': 3, '1': 4, '\u{1f600}': 5, '\u0080': 6, ö: 7 };
    expect([...canonicalJson(value).matchAll(/:(\d)/g)].map((match) => match[1])).toEqual([
      '2',
      '4',
      '6',
      '7',
      '1',
      '5',
      '3',
    ]);
  });

  it.each([
    [1e9 / 3, '333333333.3333333'],
    [1e30, '1e+30'],
    [4.5, '4.5'],
    [2e-3, '0.002'],
    [0.000000000000000000000000001, '1e-27'],
    [-0, '0'],
  ])('prints the number %d as RFC 8785 does', (value, text) => {
    expect(canonicalJson(value)).toBe(text);
  });

  it('keeps a key named __proto__', () => {
    const value = JSON.parse('{"b":1,"__proto__":{"a":1}}') as JsonValue;
    expect(canonicalJson(value)).toBe('{"__proto__":{"a":1},"b":1}');
  });

  it('accepts a value that stands in two places', () => {
    const shared = { a: 1 };
    expect(canonicalJson({ x: shared, y: shared })).toBe('{"x":{"a":1},"y":{"a":1}}');
  });
});

function withKeysSorted(value: JsonValue): JsonValue {
  return mapMembers(value, withKeysSorted, (entries) => entries.sort(([left], [right]) => (left < right ? -1 : 1)));
}

it('refuses what is not plain JSON, before anything is printed', () => {
  expect(() => canonicalJson({ at: new Date(0) } as unknown as JsonValue)).toThrow(NotPlainJsonError);
  expect(() => canonicalBytes({ at: undefined } as unknown as JsonValue)).toThrow(NotPlainJsonError);
});

describe('bytes and hashes', () => {
  it('are those of the UTF-8 text', () => {
    expect(Buffer.from(canonicalBytes('é')).toString('hex')).toBe('22c3a922');
    // SHA-256 of "abc", FIPS 180-2 appendix B.1.
    expect(sha256Hex('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
    expect(sha256Hex(Buffer.from('abc'))).toBe(sha256Hex('abc'));
  });
});
