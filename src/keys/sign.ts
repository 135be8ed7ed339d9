/**
 * Signatures: JSON Web Signatures in compact form, EdDSA over Ed25519. Signing takes a fraction of a millisecond and is
 * asynchronous; it is done before a transaction begins, never inside one (contract WF-22).
 */
import { CompactSign, compactVerify } from 'jose';
import { z } from 'zod';
import { decodeExactly, keyIdSchema } from './key-file.js';
import type { KeyRing } from './key-ring.js';
import type { VerificationKeys } from './verification-keys.js';

/** What a signature is for. It is signed too, so that one kind of document cannot stand in for another. */
export type SignatureType = 'expunge-receipt+json';

/** Why a text is not a signed document that can be relied on. */
export type SignatureFault =
  /** It is no compact JWS of this product and type. */
  | 'unreadable'
  /** It names a key that is not among the verification keys. */
  | 'foreign'
  /** Content or signature was changed after signing. */
  | 'changed';

export type VerifiedSignature =
  | { readonly ok: true; readonly keyId: string; readonly payload: Uint8Array }
  | { readonly ok: false; readonly fault: SignatureFault };

/** Signs `payload` with the ring's current signing key. @throws MissingKeyError at another door than the worker's. */
export async function sign(ring: KeyRing, type: SignatureType, payload: Uint8Array): Promise<string> {
  const { id, key } = ring.signingKey();
  return new CompactSign(payload).setProtectedHeader({ alg: 'EdDSA', kid: id, typ: type }).sign(key);
}

/**
 * Verifies a signed document. Every byte of the text counts: base64url leaves unused bits in the last character of a part,
 * and decoders ignore them, so that a changed text could verify all the same. Such a text is refused as changed.
 * Never throws.
 */
export async function verifySignature(
  keys: VerificationKeys,
  type: SignatureType,
  jws: string,
): Promise<VerifiedSignature> {
  const parts = jws.split('.');
  const [header, payload, signature] = parts;
  if (parts.length !== 3 || header === undefined || payload === undefined || signature === undefined)
    return fault('unreadable');
  const keyId = readKeyId(header, type);
  if (keyId === null) return fault('unreadable');
  const key = keys.get(keyId);
  if (key === undefined) return fault('foreign');
  const bytes = decodeExactly(payload);
  if (bytes === null || decodeExactly(signature) === null) return fault('changed');
  try {
    await compactVerify(jws, key, { algorithms: ['EdDSA'] });
    return { ok: true, keyId, payload: bytes };
  } catch {
    return fault('changed');
  }
}

const headerSchema = z.strictObject({ alg: z.literal('EdDSA'), kid: keyIdSchema, typ: z.string() });

function readKeyId(header: string, type: SignatureType): string | null {
  try {
    const bytes = decodeExactly(header);
    if (bytes === null) return null;
    const parsed = headerSchema.parse(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)));
    return parsed.typ === type ? parsed.kid : null;
  } catch {
    return null;
  }
}

function fault(kind: SignatureFault): VerifiedSignature {
  return { ok: false, fault: kind };
}
