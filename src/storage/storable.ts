/**
 * The one place where text and JSON are made fit for PostgreSQL before they reach a statement: no NUL (jsonb and text
 * refuse it), no lone surrogates (UTF-8 cannot carry them), bounded length. One such character would otherwise fail a
 * whole batch.
 */
import type { JsonValue } from './json.js';

/** The longest stored text, in bytes of UTF-8. */
export const STORABLE_TEXT_BYTES = 4096;

const encoder = new TextEncoder();

/** Replaces what cannot be stored by U+FFFD, and cuts at a character boundary. */
export function storableText(text: string, limit: number = STORABLE_TEXT_BYTES): string {
  return cut(storableString(text), limit);
}

function storableString(text: string): string {
  return text.toWellFormed().replaceAll('\u0000', '\uFFFD');
}

function cut(text: string, limit: number): string {
  // A UTF-16 unit is at most three bytes, so that short texts need no encoding to be measured.
  if (text.length * 3 <= limit) return text;
  const room = new Uint8Array(limit);
  const { read } = encoder.encodeInto(text, room);
  return text.slice(0, read);
}

/** The same for every string and key inside a JSON value. Strings within documents are not cut, only made storable. */
export function storableJson<T extends JsonValue>(value: T): T {
  // What cannot be stored is printed as an escape, and so are other control characters: without one there is nothing to mend.
  return JSON.stringify(value).includes('\\u') ? (convert(value) as T) : value;
}

function convert(value: JsonValue): JsonValue {
  if (typeof value === 'string') return storableString(value);
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return (value as readonly JsonValue[]).map(convert);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [storableString(key), convert(item)]));
}
