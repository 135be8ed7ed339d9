/**
 * Sealing (contract WF-3): identifiers, locators and salts stand in the database only encrypted to the worker's public key.
 * Who seals cannot open. The form is a JSON Web Encryption in compact form: ECDH-ES+A256KW over X25519, and A256GCM.
 */
import { CompactEncrypt, compactDecrypt, decodeProtectedHeader } from 'jose';
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
 * Encrypts `value` to the ring's current sealing key. Part and request stand in the protected header, which the encryption
 * authenticates: a row that was moved to another request does not open there.
 *
 * @param part - what is sealed, as it is named in the database: `identifiers`, `locators`, `salt`.
 * @throws MissingKeyError at a door without a sealing key; NotPlainJsonError where the value is no plain JSON.
 */
export async function seal(ring: KeyRing, part: string, requestId: string, value: JsonValue): Promise<Sealed> {
  const { id, key } = ring.sealingKey();
  assertPlainJson(value);
  const sealed = await new CompactEncrypt(Buffer.from(JSON.stringify(value), 'utf8'))
    .setProtectedHeader({
      alg: ALGORITHM,
      enc: ENCRYPTION,
      typ: TYPE,
      kid: id,
      expunge_request: requestId,
      expunge_part: part,
    })
    .encrypt(key);
  return { keyId: id, sealed };
}

/**
 * Decrypts what {@link seal} made.
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
