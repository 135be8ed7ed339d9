/**
 * What the words of a command line have to look like. Checked here and not by the parser, whose messages repeat what was
 * typed, and that may be an identifier of a person.
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { UsageError } from './usage-error.js';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/;
const OPERATOR = /^[^\p{C}]{1,200}$/u;

/** A request's id. @throws UsageError */
export function requestId(text: string | undefined): string {
  if (text !== undefined && UUID.test(text)) return text.toLowerCase();
  throw new UsageError(
    'The request id has to be a UUID such as 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f: expunge list shows them.',
  );
}

/** A whole number. @throws UsageError */
export function wholeNumber(option: string, text: string, least: number, most: number): number {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new UsageError(`${option} has to be a whole number from ${least} to ${most}.`);
}

/** A moment with its offset from UTC: without one it would mean something else on every machine. @throws UsageError */
export function time(option: string, text: string): Date {
  const value = new Date(TIME.test(text) ? text : Number.NaN);
  if (!Number.isNaN(value.getTime())) return value;
  throw new UsageError(
    `${option} has to be a time with its offset, such as 2026-01-31T18:00:00Z or 2026-01-31T18:00+01:00.`,
  );
}

/** One of a few words. @throws UsageError */
export function oneOf<T extends string>(option: string, text: string, words: readonly T[]): T {
  const word = words.find((known) => known === text);
  if (word !== undefined) return word;
  throw new UsageError(`${option} has to be one of ${words.join(', ')}.`);
}

/**
 * Who executes: host name, process id and a random suffix, so that no two processes share one.
 * @throws UsageError where a name was given that cannot be printed.
 */
export function executorId(given: string | undefined): string {
  if (given === undefined) return `${hostname()}-${process.pid}-${randomBytes(4).toString('hex')}`;
  const name = given.normalize('NFC').trim();
  if (OPERATOR.test(name)) return name;
  throw new UsageError('--executor-id has to be 1 to 200 printable characters.');
}
