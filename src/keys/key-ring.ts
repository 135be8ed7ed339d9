/**
 * The keys of one process. They live outside the database and its backups (contract WF-3), one file for each door.
 */
import { createPrivateKey, createPublicKey, createSecretKey, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { MissingKeyError, KeyRingError } from './key-errors.js';
import { parseKeyFile, type KeyFile } from './key-file.js';

/** Who holds a key file. */
export type Door = KeyFile['door'];

/** A key and the id that it is found by. */
export interface NamedKey {
  readonly id: string;
  readonly key: KeyObject;
}

/**
 * The key ring of one door. Keys are handed out as `KeyObject`s, which neither `JSON.stringify` nor a logger can print.
 * Asking for what the door does not hold throws a {@link MissingKeyError} that names the key and the file.
 */
export class KeyRing {
  readonly door: Door;
  /** The file that the ring was read from, for messages. */
  readonly source: string;
  readonly #reading: string;
  readonly #writing: readonly string[];
  readonly #reference: ReadonlyMap<string, KeyObject>;
  readonly #sealing: KeySet | null;
  readonly #opening: KeySet | null;
  readonly #signing: KeySet | null;
  readonly #receiptToken: KeySet | null;

  /** @param file - a checked key file; use {@link parseKeyRing} or {@link loadKeyRing} for one that is not. */
  constructor(file: KeyFile, source: string) {
    this.door = file.door;
    this.source = source;
    this.#reading = file.reference.reading;
    this.#writing = [...file.reference.writing];
    this.#reference = secrets(file.reference.keys);
    this.#sealing = file.door === 'guard' ? null : keySet(file.sealing, publicKey);
    this.#opening = file.door === 'worker' ? keySet(file.sealing, privateKey) : null;
    this.#signing = file.door === 'worker' ? keySet(file.signing, privateKey) : null;
    this.#receiptToken =
      file.door === 'worker' ? { current: file.receipt_token.current, keys: secrets(file.receipt_token.keys) } : null;
  }

  /** The id of the one key that readers use. */
  get readingReferenceKeyId(): string {
    return this.#reading;
  }

  /** The ids of the keys that a gate writes under, in the order of the file (contract REG-15). */
  get writingReferenceKeyIds(): readonly string[] {
    return this.#writing;
  }

  /** @throws MissingKeyError where the ring has no such reference key: nobody can tell whom a reference means. */
  referenceKey(id: string): NamedKey {
    return this.#find(this.#reference, id, 'make or compare subject references');
  }

  /** The public key that new identifiers are sealed to. @throws MissingKeyError at the guard's door. */
  sealingKey(): NamedKey {
    return this.#current(this.#sealing, 'sealing', 'seal identifiers');
  }

  /** The private key `id`. @throws MissingKeyError where it is gone, or at another door than the worker's. */
  openingKey(id: string): NamedKey {
    return this.#find(this.#opening?.keys, id, 'open sealed identifiers');
  }

  /** The private key that new receipts are signed with. @throws MissingKeyError at another door than the worker's. */
  signingKey(): NamedKey {
    return this.#current(this.#signing, 'signing', 'sign receipts');
  }

  /** The key of new receipt tokens. @throws MissingKeyError at another door than the worker's. */
  receiptTokenKey(): NamedKey {
    return this.#current(this.#receiptToken, 'receipt_token', 'make receipt tokens');
  }

  /** The receipt-token key `id`, for comparing. @throws MissingKeyError as {@link receiptTokenKey} does. */
  receiptTokenKeyOf(id: string): NamedKey {
    return this.#find(this.#receiptToken?.keys, id, 'compare receipt tokens');
  }

  #current(set: KeySet | null, section: string, purpose: string): NamedKey {
    if (set === null) throw new MissingKeyError(section, this.#description(), purpose);
    return this.#find(set.keys, set.current, purpose);
  }

  #find(keys: ReadonlyMap<string, KeyObject> | undefined, id: string, purpose: string): NamedKey {
    const key = keys?.get(id);
    if (key === undefined) throw new MissingKeyError(id, this.#description(), purpose);
    return { id, key };
  }

  #description(): string {
    return `${this.source} (the ${this.door}'s key file)`;
  }
}

interface KeySet {
  readonly current: string;
  readonly keys: ReadonlyMap<string, KeyObject>;
}

/**
 * Makes a ring of a value that was read from a secret store.
 * @param source - where it came from, for messages.
 * @throws KeyRingError where it is not a key file.
 */
export function parseKeyRing(value: unknown, source: string): KeyRing {
  return new KeyRing(parseKeyFile(value, source), source);
}

/** Reads a key file. @throws KeyRingError where it is not there, cannot be read, or is not a key file. */
export async function loadKeyRing(path: string): Promise<KeyRing> {
  return parseKeyRing(await readJsonFile(path), path);
}

/** Reads JSON without ever repeating what the file holds: the parser's own message quotes it. */
export async function readJsonFile(path: string): Promise<unknown> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown';
    throw new KeyRingError(`The key file ${path} cannot be read (${code}); check its path and its permissions.`);
  }
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new KeyRingError(`The key file ${path} is not JSON; restore it, or create new keys with expunge init.`);
  }
}

type OkpKey = {
  readonly kid: string;
  readonly kty: 'OKP';
  readonly crv: string;
  readonly x: string;
  readonly d?: string;
};

function keySet<K extends OkpKey>(
  section: { current: string; keys: readonly K[] },
  load: (jwk: K) => KeyObject,
): KeySet {
  return { current: section.current, keys: new Map(section.keys.map((jwk) => [jwk.kid, load(jwk)])) };
}

function publicKey({ kty, crv, x }: OkpKey): KeyObject {
  return createPublicKey({ key: { kty, crv, x }, format: 'jwk' });
}

function privateKey(jwk: OkpKey): KeyObject {
  return createPrivateKey({ key: { ...jwk }, format: 'jwk' });
}

function secrets(keys: Readonly<Record<string, string>>): ReadonlyMap<string, KeyObject> {
  return new Map(Object.entries(keys).map(([id, text]) => [id, createSecretKey(text, 'base64url')]));
}
