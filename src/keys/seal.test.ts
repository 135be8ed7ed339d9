import { CompactEncrypt } from 'jose';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../storage/json.js';
import { generateKeyFiles } from './generate-key-files.js';
import { MissingKeyError } from './key-errors.js';
import { parseKeyRing } from './key-ring.js';
import { open, SealedDataError, Sealer } from './seal.js';

const files = generateKeyFiles();
const client = parseKeyRing(files.client, 'client.keys.json');
const worker = parseKeyRing(files.worker, 'worker.keys.json');
const REQUEST = '01993c1e-0000-7000-8000-000000000001';
const OTHER = '01993c1e-0000-7000-8000-000000000002';
const VALUE: JsonValue = { customerId: '42', email: 'andré@example.com' };

describe('WF-3: sealing', () => {
  it('is undone by the worker, and by nobody else', async () => {
    const { keyId, sealed } = new Sealer(client).seal('identifiers', REQUEST, VALUE);
    expect(keyId).toBe(files.client.sealing.current);
    expect(await open(worker, 'identifiers', REQUEST, sealed)).toEqual(VALUE);
    await expect(open(client, 'identifiers', REQUEST, sealed)).rejects.toThrow(MissingKeyError);
    await expect(open(parseKeyRing(files.guard, 'g'), 'identifiers', REQUEST, sealed)).rejects.toThrow(MissingKeyError);
  });

  it('hides the value, and gives the same value another text each time', async () => {
    const first = new Sealer(client).seal('identifiers', REQUEST, VALUE);
    const second = new Sealer(client).seal('identifiers', REQUEST, VALUE);
    expect(first.sealed).not.toBe(second.sealed);
    const everyPart = first.sealed.split('.').map((part) => Buffer.from(part, 'base64url').toString('latin1'));
    expect(everyPart.join('')).not.toMatch(/customerId|example\.com/);
  });

  it('gives every value of one sealer a content key of its own, so that each opens and is destroyed alone', async () => {
    const sealer = new Sealer(client);
    const sealed = [REQUEST, OTHER].map((request) => sealer.seal('identifiers', request, VALUE).sealed.split('.'));
    const [one = [], other = []] = sealed;
    // The wrapped key, the initial value, the content and its tag.
    for (const at of [1, 2, 3, 4]) expect(one[at]).not.toBe(other[at]);
    expect(await open(worker, 'identifiers', REQUEST, one.join('.'))).toEqual(VALUE);
    expect(await open(worker, 'identifiers', OTHER, other.join('.'))).toEqual(VALUE);
    // What was wrapped for the one opens nothing of the other.
    const mixed = [other[0], one[1], ...other.slice(2)].join('.');
    await expect(open(worker, 'identifiers', OTHER, mixed)).rejects.toThrow('was changed');
  });

  it('binds a value to its request and part', async () => {
    const { sealed } = new Sealer(client).seal('identifiers', REQUEST, VALUE);
    await expect(open(worker, 'identifiers', OTHER, sealed)).rejects.toThrow('was sealed for another request or part');
    await expect(open(worker, 'locators', REQUEST, sealed)).rejects.toThrow('was sealed for another request or part');
  });

  it('binds them by the encryption itself: a header of another request does not open', async () => {
    const { sealed } = new Sealer(client).seal('identifiers', REQUEST, VALUE);
    const [header = '', ...rest] = sealed.split('.');
    const moved = Buffer.from(Buffer.from(header, 'base64url').toString().replace(REQUEST, OTHER)).toString(
      'base64url',
    );
    await expect(open(worker, 'identifiers', OTHER, [moved, ...rest].join('.'))).rejects.toThrow('was changed');
  });

  it('refuses a text that was changed anywhere', async () => {
    const { sealed } = new Sealer(client).seal('salt', REQUEST, 'x');
    // Every third character; the last of a part may carry unused bits, which change nothing.
    const ends = new Set([...sealed.matchAll(/\.|$/g)].map((match) => match.index - 1));
    for (let at = 0; at < sealed.length; at += 3) {
      if (sealed[at] === '.' || ends.has(at)) continue;
      const changed = sealed.slice(0, at) + (sealed[at] === 'A' ? 'B' : 'A') + sealed.slice(at + 1);
      // A change in the key's id may name a key that is not there; everything else is tampering.
      await expect(open(worker, 'salt', REQUEST, changed), `at ${at}`).rejects.toSatisfy(
        (error) => error instanceof SealedDataError || error instanceof MissingKeyError,
      );
    }
  });

  it.each(['', 'x', '....', 'a.b.c.d.e', '{}', 'eyJhbGciOiJub25lIn0....'])(
    'refuses %j, which is not a sealed value',
    async (text) => {
      await expect(open(worker, 'salt', REQUEST, text)).rejects.toMatchObject({
        code: 'SEALED_DATA',
        outcome: 'failed',
      });
    },
  );

  it('a missing key is named, and is not taken for damage', async () => {
    const { keyId, sealed } = new Sealer(client).seal('identifiers', REQUEST, VALUE);
    const otherWorker = parseKeyRing(generateKeyFiles().worker, '/keys/worker.keys.json');
    const error: unknown = await open(otherWorker, 'identifiers', REQUEST, sealed).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(MissingKeyError);
    expect((error as MissingKeyError).message).toContain(keyId);
    expect((error as MissingKeyError).message).toContain('/keys/worker.keys.json');
  });

  it('opens what older periods sealed, and seals to the current one', async () => {
    const next = generateKeyFiles();
    const rotated = parseKeyRing(
      {
        ...files.worker,
        sealing: {
          current: next.worker.sealing.current,
          keys: [...next.worker.sealing.keys, ...files.worker.sealing.keys],
        },
      },
      'worker.keys.json',
    );
    const old = new Sealer(client).seal('identifiers', REQUEST, VALUE);
    expect(await open(rotated, 'identifiers', REQUEST, old.sealed)).toEqual(VALUE);
    expect(new Sealer(rotated).seal('identifiers', REQUEST, VALUE).keyId).toBe(next.worker.sealing.current);
  });

  it('does not open a value that was sealed with a weaker algorithm', async () => {
    const { id, key } = client.sealingKey();
    const weaker = await new CompactEncrypt(Buffer.from('"x"'))
      .setProtectedHeader({
        alg: 'ECDH-ES',
        enc: 'A128CBC-HS256',
        typ: 'expunge-sealed+json',
        kid: id,
        expunge_request: REQUEST,
        expunge_part: 'salt',
      })
      .encrypt(key);
    await expect(open(worker, 'salt', REQUEST, weaker)).rejects.toThrow('is not a sealed value');
  });

  it('WF-2: what is no JSON inside is not quoted', async () => {
    const { id, key } = client.sealingKey();
    const sealed = await new CompactEncrypt(Buffer.from('topsecret'))
      .setProtectedHeader({
        alg: 'ECDH-ES+A256KW',
        enc: 'A256GCM',
        typ: 'expunge-sealed+json',
        kid: id,
        expunge_request: REQUEST,
        expunge_part: 'salt',
      })
      .encrypt(key);
    const error: unknown = await open(worker, 'salt', REQUEST, sealed).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(SealedDataError);
    expect(inspect(error)).not.toContain('topsecret');
  });
});
