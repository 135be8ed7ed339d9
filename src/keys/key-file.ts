/**
 * The form of a key file. There is one for each door, with no more in it than the door needs: applications hold the keys of
 * references; the client also the public sealing key; the worker also opens, signs, and makes receipt tokens.
 */
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { z } from 'zod';
import { KeyRingError } from './key-errors.js';

/** The ids of keys: they stand in references, signatures and sealed rows, and in messages. */
export const keyIdSchema = z.string().regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/);

const base64url = z.string().regex(/^[A-Za-z0-9_-]+$/);

/** 32 random bytes for HMAC-SHA-256, in base64url. */
const secretSchema = base64url.refine((text) => decodeExactly(text)?.length === 32, {
  message: 'is not 32 bytes in base64url',
});

const okpPublic = <C extends 'X25519' | 'Ed25519'>(curve: C) =>
  z
    .strictObject({ kty: z.literal('OKP'), crv: z.literal(curve), kid: keyIdSchema, x: base64url })
    .refine((jwk) => isPublicKey(jwk), { message: 'is not a public key of this curve' });

const okpPrivate = <C extends 'X25519' | 'Ed25519'>(curve: C) =>
  z
    .strictObject({ kty: z.literal('OKP'), crv: z.literal(curve), kid: keyIdSchema, x: base64url, d: base64url })
    .refine((jwk) => isKeyPair(jwk), { message: 'is not a private key with its public key' });

/**
 * Keys of references. A gate writes under every `writing` key and readers use the `reading` one; a key that is in neither
 * list is introduced or retired, and only found by its id (contract REG-15).
 */
const referenceSection = z
  .strictObject({
    reading: keyIdSchema,
    writing: z.array(keyIdSchema).min(1).max(16),
    keys: z.record(keyIdSchema, secretSchema),
  })
  .refine((it) => it.writing.includes(it.reading), { path: ['reading'], message: 'is not among the writing keys' })
  .refine((it) => it.writing.every((id) => Object.hasOwn(it.keys, id)), {
    path: ['writing'],
    message: 'names a key that is not in keys',
  })
  .refine((it) => new Set(it.writing).size === it.writing.length, { path: ['writing'], message: 'names a key twice' });

/** Several keys of one kind, of which the `current` one is used for what is new and the others for what is old. */
const currentSection = <K extends z.ZodType<{ kid: string }>>(key: K) =>
  z
    .strictObject({ current: keyIdSchema, keys: z.array(key).min(1).max(1_000) })
    .refine((it) => it.keys.some(({ kid }) => kid === it.current), {
      path: ['current'],
      message: 'names a key that is not in keys',
    })
    .refine((it) => new Set(it.keys.map(({ kid }) => kid)).size === it.keys.length, {
      path: ['keys'],
      message: 'holds an id twice',
    });

const receiptTokenSection = z
  .strictObject({ current: keyIdSchema, keys: z.record(keyIdSchema, secretSchema) })
  .refine((it) => Object.hasOwn(it.keys, it.current), {
    path: ['current'],
    message: 'names a key that is not in keys',
  });

const head = { format: z.literal('expunge-keys'), version: z.literal(1) };

/** A key file: what it holds follows from its door. */
const keyFileSchema = z.discriminatedUnion('door', [
  z.strictObject({ ...head, door: z.literal('guard'), reference: referenceSection }),
  z.strictObject({
    ...head,
    door: z.literal('client'),
    reference: referenceSection,
    sealing: currentSection(okpPublic('X25519')),
  }),
  z.strictObject({
    ...head,
    door: z.literal('worker'),
    reference: referenceSection,
    sealing: currentSection(okpPrivate('X25519')),
    signing: currentSection(okpPrivate('Ed25519')),
    receipt_token: receiptTokenSection,
  }),
]);

const verificationKeySchema = z
  .object({
    kty: z.literal('OKP'),
    crv: z.literal('Ed25519'),
    kid: keyIdSchema,
    x: base64url,
    d: z.undefined().optional(),
  })
  .refine((jwk) => isPublicKey(jwk), { message: 'is not a public key of this curve' });

/** The public half of the signing keys, as a JSON Web Key Set: all that an auditor needs. */
const verificationFileSchema = z.object({
  keys: z
    .array(verificationKeySchema)
    .min(1)
    .max(1_000)
    .refine((keys) => new Set(keys.map(({ kid }) => kid)).size === keys.length, { message: 'holds an id twice' }),
});

export type KeyFile = z.infer<typeof keyFileSchema>;
export type GuardKeyFile = Extract<KeyFile, { door: 'guard' }>;
export type ClientKeyFile = Extract<KeyFile, { door: 'client' }>;
export type WorkerKeyFile = Extract<KeyFile, { door: 'worker' }>;
export type VerificationFile = {
  readonly keys: readonly { readonly kty: 'OKP'; readonly crv: 'Ed25519'; readonly kid: string; readonly x: string }[];
};

/**
 * Checks what a key file holds.
 * @param source - the file's name, for the message.
 * @throws KeyRingError naming the field and the rule that it breaks, never what stands there.
 */
export function parseKeyFile(value: unknown, source: string): KeyFile {
  const result = keyFileSchema.safeParse(value);
  if (result.success) return result.data;
  throw new KeyRingError(
    `The key file ${source} is refused: ${describeIssue(result.error)}; restore it, or create new keys with expunge init.`,
  );
}

/** Checks the public keys that receipts are verified with. @throws KeyRingError as {@link parseKeyFile} does. */
export function parseVerificationFile(value: unknown, source: string): VerificationFile {
  const result = verificationFileSchema.safeParse(value);
  if (result.success) return { keys: result.data.keys.map(({ kty, crv, kid, x }) => ({ kty, crv, kid, x })) };
  throw new KeyRingError(
    `The verification keys in ${source} are refused: ${describeIssue(result.error)}; ask whoever signs the receipts for their public key file.`,
  );
}

/**
 * The first broken rule. Only names of fields that this file declares and texts that it writes are printed: in a garbled
 * file a secret may stand anywhere, also where a name should be.
 */
function describeIssue(error: z.ZodError): string {
  const issue = error.issues[0];
  if (issue === undefined) return 'it cannot be understood';
  const path = issue.path.map((step) =>
    typeof step === 'number' ? `[${step}]` : knownFields.has(String(step)) ? `.${String(step)}` : '.(id)',
  );
  const rule = issue.code === 'custom' ? issue.message : issue.code.replaceAll('_', ' ');
  return `$${path.join('')} ${rule}`;
}

const knownFields = new Set(
  'format version door reference reading writing keys sealing signing receipt_token current kty crv kid x d'.split(' '),
);

/** The bytes of a base64url text, or null where it is not the one text of these bytes. */
export function decodeExactly(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : null;
}

interface OkpJwk {
  readonly kty: 'OKP';
  readonly crv: string;
  readonly x: string;
}

function isPublicKey({ kty, crv, x }: OkpJwk): boolean {
  try {
    return createPublicKey({ key: { kty, crv, x }, format: 'jwk' }).export({ format: 'jwk' }).x === x;
  } catch {
    return false;
  }
}

/** Node takes the private half at its word and ignores `x`; a file that was put together wrongly would sign in vain. */
function isKeyPair({ kty, crv, x, d }: OkpJwk & { readonly d: string }): boolean {
  try {
    const key = createPrivateKey({ key: { kty, crv, x, d }, format: 'jwk' });
    return createPublicKey(key).export({ format: 'jwk' }).x === x;
  } catch {
    return false;
  }
}
