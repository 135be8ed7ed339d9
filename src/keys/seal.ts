/**
 * Sealing (contract WF-3): identifiers, locators and salts stand in the database only encrypted to the worker's public key.
 * Who seals cannot open. The form is a JSON Web Encryption in compact form: ECDH-ES+A256KW over X25519, and A256GCM.
 */
import {
  createCipheriv,
  createHash,
  createSecretKey,
  diffieHellman,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { compactDecrypt, decodeProtectedHeader } from 'jose';
import { z } from 'zod';
import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';
import type { JsonValue } from '../storage/json.js';
import { assertPlainJson } from '../storage/plain-json.js';
import { keyIdSchema } from './key-file.js';
import type { KeyRing } from './key-ring.js';

const ALGORITHM = 'ECDH-ES+A256KW';
const ENCRYPTION = 'A256GCM';
const TYPE = 'expunge-sealed+json';

/** A sealed value is damaged, or belongs to another request or part. */
export class SealedDataError extends ExpungeError {
  readonly code = 'SEALED_DATA';
  readonly outcome: ErrorOutcome = 'failed';

  constructor(part: string, requestId: string, what: string) {
    super(
      `The sealed ${part} of request ${requestId} ${what}; find out who changed the row before anything else is done with it.`,
    );
  }
}

/** What is stored of a sealed value. */
export interface Sealed {
  /** The key that opens it, so that rows of one period can be found without opening any. */
  readonly keyId: string;
  /** The JSON Web Encryption, in ASCII. */
  readonly sealed: string;
}

/**
 * Seals many values with one key agreement, which is what sealing costs: a hundred thousand identifiers would take a minute of
 * it. The wrapping key that the agreement gives is kept in memory while the sealer is, and wraps a content key of its own for
 * each value. So each value is a whole JWE that any library opens, is destroyed alone, and can be wrapped anew alone.
 *
 * Make one for each part of the work: whoever learns the wrapping key can open what this sealer has sealed, and nothing else.
 */
export class Sealer {
  readonly #kid: string;
  readonly #wrappingKey: KeyObject;
  #pool: Uint8Array = new Uint8Array();
  /** The public half of the agreement, by which the worker's private key finds the same wrapping key. */
  readonly #epk: { readonly kty: string; readonly crv: string; readonly x: string };

  /** @throws MissingKeyError at a door without a sealing key. */
  constructor(ring: KeyRing) {
    const { id, key } = ring.sealingKey();
    const { publicKey, privateKey } = generateKeyPairSync('x25519');
    const { crv, x } = publicKey.export({ format: 'jwk' });
    this.#kid = id;
    this.#epk = { kty: 'OKP', crv: crv ?? '', x: x ?? '' };
    this.#wrappingKey = wrappingKey(diffieHellman({ privateKey, publicKey: key }));
  }

  /**
   * Encrypts `value` to the ring's current sealing key. Part and request stand in the protected header, which the encryption
   * authenticates: a row that was moved to another request does not open there.
   *
   * @param part - what is sealed, as it is named in the database: `identifiers`, `locators`, `salt`.
   * @throws NotPlainJsonError where the value is no plain JSON.
   */
  seal(part: string, requestId: string, value: JsonValue): Sealed {
    assertPlainJson(value);
    const header = encode(
      JSON.stringify({
        alg: ALGORITHM,
        enc: ENCRYPTION,
        typ: TYPE,
        kid: this.#kid,
        epk: this.#epk,
        expunge_request: requestId,
        expunge_part: part,
      }),
    );
    const contentKey = this.#random(32);
    const iv = this.#random(12);
    const cipher = createCipheriv('aes-256-gcm', contentKey, iv).setAAD(Buffer.from(header, 'ascii'));
    const content = Buffer.concat([cipher.update(JSON.stringify(value), 'utf8'), cipher.final()]);
    const parts = [this.#wrap(contentKey), iv, content, cipher.getAuthTag()].map(encode);
    return { keyId: this.#kid, sealed: [header, ...parts].join('.') };
  }

  /** From a store that is filled many values at a time: asked for each by itself, randomness is dear. No byte is given twice. */
  #random(length: number): Uint8Array {
    if (this.#pool.length < length) this.#pool = randomBytes(POOL_BYTES);
    const bytes = this.#pool.subarray(0, length);
    this.#pool = this.#pool.subarray(length);
    return bytes;
  }

  /** AES Key Wrap (RFC 3394). */
  #wrap(contentKey: Uint8Array): Uint8Array {
    const wrap = createCipheriv('id-aes256-wrap', this.#wrappingKey, WRAP_IV);
    return Buffer.concat([wrap.update(contentKey), wrap.final()]);
  }
}

const POOL_BYTES = 4_096;

/** The default initial value of RFC 3394. */
const WRAP_IV = Buffer.alloc(8, 0xa6);

/** The Concat KDF of RFC 7518, section 4.6.2, without party information: one round gives the 256 bits. */
function wrappingKey(shared: Uint8Array): KeyObject {
  const info = [
    lengthOf(1),
    shared,
    lengthOf(ALGORITHM.length),
    Buffer.from(ALGORITHM, 'ascii'),
    NO_PARTIES,
    lengthOf(256),
  ];
  return createSecretKey(createHash('sha256').update(Buffer.concat(info)).digest());
}

function lengthOf(value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

const NO_PARTIES = Buffer.alloc(8);

function encode(bytes: string | Uint8Array): string {
  return Buffer.from(bytes as string).toString('base64url');
}

/**
 * Decrypts what a {@link Sealer} made.
 *
 * @throws MissingKeyError where the ring lacks the key that the value was sealed to; the work has to stop then.
 * @throws SealedDataError where the value was changed, is no sealed value, or was sealed for another request or part.
 */
export async function open(ring: KeyRing, part: string, requestId: string, sealed: string): Promise<JsonValue> {
  const header = readHeader(sealed);
  if (header === null) throw new SealedDataError(part, requestId, 'is not a sealed value');
  if (header.expunge_request !== requestId || header.expunge_part !== part) {
    throw new SealedDataError(part, requestId, 'was sealed for another request or part');
  }
  const { key } = ring.openingKey(header.kid);
  try {
    const { plaintext } = await compactDecrypt(sealed, key, {
      keyManagementAlgorithms: [ALGORITHM],
      contentEncryptionAlgorithms: [ENCRYPTION],
    });
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(plaintext)) as JsonValue;
  } catch {
    // The cause is left out on purpose: a parser's message quotes the text that it was given.
    throw new SealedDataError(part, requestId, `does not open with the key ${header.kid} and was changed`);
  }
}

const headerSchema = z.strictObject({
  alg: z.literal(ALGORITHM),
  enc: z.literal(ENCRYPTION),
  typ: z.literal(TYPE),
  kid: keyIdSchema,
  epk: z.looseObject({}),
  expunge_request: z.string(),
  expunge_part: z.string(),
});

function readHeader(sealed: string): z.infer<typeof headerSchema> | null {
  try {
    return headerSchema.parse(decodeProtectedHeader(sealed));
  } catch {
    return null;
  }
}
