/**
 * Canonical JSON (RFC 8785): one text for one value, so that digests and signatures do not depend on the order of keys
 * or on who wrote the value.
 */
import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { JsonValue } from '../storage/json.js';
import { assertPlainJson, NotPlainJsonError } from '../storage/plain-json.js';

/**
 * The canonical text of `value`.
 *
 * @throws NotPlainJsonError for anything that JSON cannot carry without loss, as `assertPlainJson` tells it: two different
 *   values would share a digest otherwise.
 */
export function canonicalJson(value: JsonValue): string {
  assertPlainJson(value);
  const text = canonicalize(value);
  if (text === undefined) throw new NotPlainJsonError('$', 'nothing that can be printed');
  return text;
}

/** The canonical text of `value` in UTF-8. @throws NotPlainJsonError as {@link canonicalJson} does. */
export function canonicalBytes(value: JsonValue): Uint8Array {
  return Buffer.from(canonicalJson(value), 'utf8');
}

/** SHA-256 of `data` (text is taken as UTF-8), as 64 lower-case hexadecimal digits. */
export function sha256Hex(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}
