/**
 * Subject references: keyed pseudonyms of identifiers (contract WF-2). The registry, requests, jobs and receipts know a
 * subject by them alone. Without the key nobody can tell whom one means, nor try out who it could be.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { canonicalBytes } from '../evidence/canonical-json.js';
import type { KeyRing } from '../keys/key-ring.js';
import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';
import type { NormalisedIdentifier } from './identifier.js';

/** Separates these MACs from every other use of a key. Raised with the form of what follows it. */
const DOMAIN = 'expunge/subject-reference/1';

const FORM = /^ref1\.([A-Za-z][A-Za-z0-9_-]{0,63})\.([A-Za-z0-9_-]{43})$/;

/** What a reference is made of. */
export interface ReferenceInput {
  /** The installation's tenant. The same person under two tenants has two references. */
  readonly tenant: string;
  readonly identifier: NormalisedIdentifier;
}

/** A text is no subject reference. It is not repeated: it may be an identifier that was put there by mistake. */
export class InvalidReferenceError extends ExpungeError {
  readonly code = 'INVALID_REFERENCE';
  readonly outcome: ErrorOutcome = 'refused';

  constructor() {
    super(
      'A text was given that is no subject reference; give one as it was printed, in the form ref1.<key id>.<43 characters>.',
    );
  }
}

/**
 * The reference under one key: HMAC-SHA-256 over domain tag, tenant, identifier type, normaliser and its version, and the
 * normalised value, as the canonical JSON of an array, in which no two inputs share a text.
 *
 * @param keyId - the key to use; the ring's reading key where it is absent.
 * @returns `ref1.<key id>.<base64url>`; printable, and safe in logs, messages and URLs.
 * @throws MissingKeyError where the ring lacks the key.
 */
export function subjectReference(
  ring: KeyRing,
  input: ReferenceInput,
  keyId: string = ring.readingReferenceKeyId,
): string {
  const { name, normaliser, normaliserVersion, value } = input.identifier;
  const { id, key } = ring.referenceKey(keyId);
  const message = canonicalBytes([DOMAIN, input.tenant, name, normaliser, normaliserVersion, value]);
  return `ref1.${id}.${createHmac('sha256', key).update(message).digest('base64url')}`;
}

/** The one reference that readers ask with (contract REG-15). @throws MissingKeyError where the ring lacks its key. */
export function referenceToRead(ring: KeyRing, input: ReferenceInput): string {
  return subjectReference(ring, input, ring.readingReferenceKeyId);
}

/**
 * The references that a gate writes, one for each writing key, the one that is read among them (contract REG-15).
 * @throws MissingKeyError where the ring lacks one of the keys: a tombstone without that form would later be overlooked.
 */
export function referencesToWrite(ring: KeyRing, input: ReferenceInput): readonly string[] {
  return ring.writingReferenceKeyIds.map((keyId) => subjectReference(ring, input, keyId));
}

/** Takes a reference apart. @throws InvalidReferenceError where the text is none. */
export function parseReference(text: string): { readonly keyId: string; readonly mac: Uint8Array } {
  const [, keyId, encoded] = FORM.exec(text) ?? [];
  const mac = Buffer.from(encoded ?? '', 'base64url');
  // One MAC has one text: a second spelling would be a second row in the registry.
  if (keyId === undefined || mac.toString('base64url') !== encoded) throw new InvalidReferenceError();
  return { keyId, mac };
}

/**
 * Whether two references are the same, in a time that does not tell how much of them is. References under different keys
 * are never the same, even of one subject.
 * @throws InvalidReferenceError where one is no reference.
 */
export function sameReference(left: string, right: string): boolean {
  const [a, b] = [parseReference(left), parseReference(right)];
  return timingSafeEqual(a.mac, b.mac) && a.keyId === b.keyId;
}
