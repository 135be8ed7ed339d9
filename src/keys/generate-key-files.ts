/** New keys for an installation. */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import type { ClientKeyFile, GuardKeyFile, VerificationFile, WorkerKeyFile } from './key-file.js';

/** What `expunge init` writes: a file for each door, and the public one for auditors. */
export interface KeyFiles {
  readonly guard: GuardKeyFile;
  readonly client: ClientKeyFile;
  readonly worker: WorkerKeyFile;
  readonly verification: VerificationFile;
}

/**
 * Makes the keys of a new installation. Ids carry what a key is for and a random part, so that keys of two installations
 * are never taken for each other.
 *
 * @param options.period - the name of the period that the sealing key is for, as `2025-11` (a month by default, contract
 *   WF-3); this month in UTC where it is absent.
 */
export function generateKeyFiles(options: { readonly period?: string } = {}): KeyFiles {
  const period = options.period ?? new Date().toISOString().slice(0, 7);
  const referenceId = keyId('ref');
  const reference = { reading: referenceId, writing: [referenceId], keys: { [referenceId]: secret() } };
  const sealing = keyPair('X25519', keyId(`seal-${period}`));
  const signing = keyPair('Ed25519', keyId('sign'));
  const tokenId = keyId('token');
  const head = { format: 'expunge-keys', version: 1 } as const;
  return {
    guard: { ...head, door: 'guard', reference },
    client: { ...head, door: 'client', reference, sealing: { current: sealing.kid, keys: [publicHalf(sealing)] } },
    worker: {
      ...head,
      door: 'worker',
      reference,
      sealing: { current: sealing.kid, keys: [sealing] },
      signing: { current: signing.kid, keys: [signing] },
      receipt_token: { current: tokenId, keys: { [tokenId]: secret() } },
    },
    verification: { keys: [publicHalf(signing)] },
  };
}

function keyId(prefix: string): string {
  return `${prefix}-${randomBytes(6).toString('hex')}`;
}

function secret(): string {
  return randomBytes(32).toString('base64url');
}

interface KeyPair<C> {
  readonly kty: 'OKP';
  readonly crv: C;
  readonly kid: string;
  readonly x: string;
  readonly d: string;
}

function keyPair<C extends 'X25519' | 'Ed25519'>(crv: C, kid: string): KeyPair<C> {
  const { privateKey } = crv === 'X25519' ? generateKeyPairSync('x25519') : generateKeyPairSync('ed25519');
  const { x, d } = privateKey.export({ format: 'jwk' });
  if (x === undefined || d === undefined) throw new TypeError(`This Node.js exports no JSON Web Key for ${crv}.`);
  return { kty: 'OKP', crv, kid, x, d };
}

function publicHalf<C>({ kty, crv, kid, x }: KeyPair<C>): Omit<KeyPair<C>, 'd'> {
  return { kty, crv, kid, x };
}
