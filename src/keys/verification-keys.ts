import { createPublicKey, type KeyObject } from 'node:crypto';
import { parseVerificationFile } from './key-file.js';
import { readJsonFile } from './key-ring.js';

/** The public keys that signatures are verified with, by key id: all that an auditor holds. */
export type VerificationKeys = ReadonlyMap<string, KeyObject>;

/**
 * Reads a JSON Web Key Set of Ed25519 public keys.
 * @param source - where it came from, for messages.
 * @throws KeyRingError where it is none, holds a private key, or holds an id twice.
 */
export function parseVerificationKeys(value: unknown, source: string): VerificationKeys {
  const { keys } = parseVerificationFile(value, source);
  return new Map(keys.map(({ kty, crv, kid, x }) => [kid, createPublicKey({ key: { kty, crv, x }, format: 'jwk' })]));
}

/** Reads a verification key file. @throws KeyRingError as {@link parseVerificationKeys} does, or where it cannot be read. */
export async function loadVerificationKeys(path: string): Promise<VerificationKeys> {
  return parseVerificationKeys(await readJsonFile(path), path);
}
