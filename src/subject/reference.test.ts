import fc from 'fast-check';
import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { generateKeyFiles } from '../keys/generate-key-files.js';
import { MissingKeyError } from '../keys/key-errors.js';
import { parseKeyRing } from '../keys/key-ring.js';
import { normaliseIdentifier, type IdentifierDeclaration, type NormalisedIdentifier } from './identifier.js';
import {
  InvalidReferenceError,
  parseReference,
  referencesToWrite,
  referenceToRead,
  sameReference,
  subjectReference,
  type ReferenceInput,
} from './reference.js';

const files = generateKeyFiles();
const ring = parseKeyRing(files.guard, 'guard.keys.json');
const keyId = files.guard.reference.reading;
const EMAIL: IdentifierDeclaration = { normalise: 'email' };

const identifier = (change: Partial<NormalisedIdentifier> = {}): NormalisedIdentifier => ({
  name: 'customerId',
  value: '42',
  normaliser: 'exact',
  normaliserVersion: 1,
  ...change,
});
const input = (change: Partial<NormalisedIdentifier> = {}, tenant = 'shop'): ReferenceInput => ({
  tenant,
  identifier: identifier(change),
});
const ofEmail = (value: string) =>
  subjectReference(ring, { tenant: 'shop', identifier: normaliseIdentifier('email', EMAIL, value) });

describe('WF-2: a subject reference', () => {
  it('is the keyed HMAC of all that it is made of, and carries the id of its key', () => {
    const key = Buffer.from(files.guard.reference.keys[keyId] ?? '', 'base64url');
    const message = '["expunge/subject-reference/1","shop","customerId","exact",1,"42"]';
    expect(subjectReference(ring, input())).toBe(
      `ref1.${keyId}.${createHmac('sha256', key).update(message).digest('base64url')}`,
    );
  });

  it.each<[string, ReferenceInput]>([
    ['tenant', input({}, 'other')],
    ['identifier type', input({ name: 'customerNo' })],
    ['normaliser', input({ normaliser: 'email' })],
    ['normaliser version', input({ normaliserVersion: 2 })],
    ['value', input({ value: '43' })],
  ])('differs by %s', (_name, other) => {
    expect(subjectReference(ring, other)).not.toBe(subjectReference(ring, input()));
  });

  it('differs by key', () => {
    expect(subjectReference(parseKeyRing(generateKeyFiles().guard, 'x'), input())).not.toBe(
      subjectReference(ring, input()),
    );
  });

  it('has an unambiguous encoding: where one part ends and the next begins matters', () => {
    const part = fc.string({ unit: fc.constantFrom('a', '"', ',', '\\', '1', '[', ' '), maxLength: 4 });
    const parts = fc.record({ tenant: part, name: part, value: part });
    fc.assert(
      fc.property(parts, parts, (left, right) => {
        const same = left.tenant === right.tenant && left.name === right.name && left.value === right.value;
        const reference = (of: typeof left) =>
          subjectReference(ring, input({ name: of.name, value: of.value }, of.tenant));
        expect(reference(left) === reference(right)).toBe(same);
      }),
      { numRuns: 300 },
    );
  });

  it.each<[string, string, string, boolean]>([
    ['surrounding space', ' jane@example.com ', 'jane@example.com', true],
    ['an upper-case domain', 'jane@EXAMPLE.com', 'jane@example.com', true],
    ['NFC and NFD of é', 'andr\u00e9@x.fr', 'andre\u0301@x.fr', true],
    ['İ, composed and not', 'x@\u0130.com', 'x@I\u0307.com', true],
    ['İ and i', 'x@\u0130.com', 'x@i.com', false],
    ['ß and ẞ in a domain', 'x@\u00df.de', 'x@\u1e9e.de', true],
    ['ß and ss', 'x@\u00df.de', 'x@ss.de', false],
    ['an underscore and a letter', 'a_b@x', 'axb@x', false],
    ['an upper-case local part', 'Jane@x.de', 'jane@x.de', false],
  ])('WF-4: %s', (_name, left, right, same) => {
    expect(ofEmail(left) === ofEmail(right)).toBe(same);
  });

  it('holds no trace of the value', () => {
    const reference = ofEmail('jane@example.com');
    expect(reference).not.toMatch(/jane|example/);
    expect(reference).toMatch(/^ref1\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}$/);
  });
});

describe('REG-15: write all, read one', () => {
  const next = generateKeyFiles().guard.reference;
  const rotating = parseKeyRing(
    {
      ...files.guard,
      reference: {
        reading: keyId,
        writing: [keyId, next.reading],
        keys: { ...files.guard.reference.keys, ...next.keys },
      },
    },
    'guard.keys.json',
  );

  it('writes under every writing key and reads by one of them', () => {
    const written = referencesToWrite(rotating, input());
    expect(written.map((text) => parseReference(text).keyId)).toEqual([keyId, next.reading]);
    expect(written).toContain(referenceToRead(rotating, input()));
    expect(referenceToRead(rotating, input())).toBe(referenceToRead(ring, input()));
  });

  it('refuses a key that the ring lacks, by name', () => {
    expect(() => subjectReference(ring, input(), next.reading)).toThrow(MissingKeyError);
    expect(() => subjectReference(ring, input(), next.reading)).toThrow(next.reading);
  });
});

describe('the text of a reference', () => {
  const reference = subjectReference(ring, input());

  it('is taken apart and compared', () => {
    expect(parseReference(reference).keyId).toBe(keyId);
    expect(parseReference(reference).mac).toHaveLength(32);
    expect(sameReference(reference, subjectReference(ring, input()))).toBe(true);
    expect(sameReference(reference, subjectReference(ring, input({ value: '43' })))).toBe(false);
  });

  it('is not the same under another key id', () => {
    expect(sameReference(reference, reference.replace(keyId, 'ref-other'))).toBe(false);
  });

  it('has one spelling: unused bits of the last character are refused', () => {
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const other = reference.slice(0, -1) + alphabet.charAt(alphabet.indexOf(reference.slice(-1)) ^ 1);
    expect(() => parseReference(other)).toThrow(InvalidReferenceError);
  });

  it.each([
    '',
    'jane@example.com',
    'ref1..x',
    `ref2${reference.slice(4)}`,
    `${reference}\n`,
    ` ${reference}`,
    `${reference}A`,
  ])('%j is refused and not repeated', (text) => {
    expect(() => parseReference(text)).toThrow(InvalidReferenceError);
    expect(() => parseReference(text)).not.toThrow(/jane/);
    expect(() => sameReference(reference, text)).toThrow(InvalidReferenceError);
  });
});
