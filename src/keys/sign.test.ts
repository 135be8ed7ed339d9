import { CompactSign } from 'jose';
import { describe, expect, it } from 'vitest';
import { generateKeyFiles } from './generate-key-files.js';
import { MissingKeyError } from './key-errors.js';
import { parseKeyRing } from './key-ring.js';
import { sign, verifySignature, type SignatureType } from './sign.js';
import { parseVerificationKeys } from './verification-keys.js';

const TYPE = 'expunge-receipt+json';
const files = generateKeyFiles();
const worker = parseKeyRing(files.worker, 'worker.keys.json');
const keys = parseVerificationKeys(files.verification, 'receipts.jwks.json');
const PAYLOAD = Buffer.from('{"a":1}');
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

const verify = (jws: string) => verifySignature(keys, TYPE, jws);

describe('signatures', () => {
  it('WF-22: are verified with the public key alone', async () => {
    const result = await verify(await sign(worker, TYPE, PAYLOAD));
    expect(result).toEqual({ ok: true, keyId: files.worker.signing.current, payload: PAYLOAD });
  });

  it('are made at the worker only', async () => {
    await expect(sign(parseKeyRing(files.client, 'client.keys.json'), TYPE, PAYLOAD)).rejects.toThrow(MissingKeyError);
  });

  it('WF-22: break when any character is replaced by its neighbour, unused bits included', async () => {
    const jws = await sign(worker, TYPE, PAYLOAD);
    for (let at = 0; at < jws.length; at += 1) {
      const value = ALPHABET.indexOf(jws.charAt(at));
      const neighbour = value === -1 ? 'A' : ALPHABET.charAt(value ^ 1);
      const changed = jws.slice(0, at) + neighbour + jws.slice(at + 1);
      expect(await verify(changed), `character ${at}`).toMatchObject({ ok: false });
    }
  });

  it('tell a foreign key from a change', async () => {
    const stranger = generateKeyFiles().worker;
    const foreign = await sign(parseKeyRing(stranger, 'x'), TYPE, PAYLOAD);
    expect(await verify(foreign)).toEqual({ ok: false, fault: 'foreign' });

    const { key } = parseKeyRing(stranger, 'x').signingKey();
    const posing = await new CompactSign(PAYLOAD)
      .setProtectedHeader({ alg: 'EdDSA', kid: files.worker.signing.current, typ: TYPE })
      .sign(key);
    expect(await verify(posing)).toEqual({ ok: false, fault: 'changed' });
  });

  it('are good for one kind of document', async () => {
    const other = await sign(worker, 'expunge-other+json' as SignatureType, PAYLOAD);
    expect(await verify(other)).toEqual({ ok: false, fault: 'unreadable' });
  });

  it.each<[string, Record<string, unknown>]>([
    ['no algorithm', { alg: 'none', kid: files.worker.signing.current, typ: TYPE }],
    ['a symmetric algorithm', { alg: 'HS256', kid: files.worker.signing.current, typ: TYPE }],
    [
      'a key in the header',
      { alg: 'EdDSA', kid: files.worker.signing.current, typ: TYPE, jwk: files.verification.keys[0] },
    ],
    ['a critical extension', { alg: 'EdDSA', kid: files.worker.signing.current, typ: TYPE, crit: ['b64'], b64: false }],
    ['no key id', { alg: 'EdDSA', typ: TYPE }],
  ])('are not read with %s', async (_name, header) => {
    const [, payload = '', signature = ''] = (await sign(worker, TYPE, PAYLOAD)).split('.');
    const forged = [Buffer.from(JSON.stringify(header)).toString('base64url'), payload, signature].join('.');
    expect(await verify(forged)).toEqual({ ok: false, fault: 'unreadable' });
  });

  it.each(['', '.', '..', 'a.b', 'a.b.c.d', 'e30.e30.e30', '\u0000.\ud800.x', '{}'])(
    'are not found in %j',
    async (text) => {
      expect(await verify(text)).toEqual({ ok: false, fault: 'unreadable' });
    },
  );
});
