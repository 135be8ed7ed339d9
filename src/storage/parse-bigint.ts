import { BigintRangeError } from './storage-error.js';

/**
 * Reads a bigint as both drivers give it, as text. Generations and sequence numbers fit a number: microseconds since 1970
 * stay below 2^53 until the year 2255.
 * @throws BigintRangeError where the number would be rounded: a rounded generation would fence off the wrong owner.
 */
export function parseBigint(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new BigintRangeError();
  return value;
}
