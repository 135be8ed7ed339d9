/**
 * The allow-list of values: what the text of a name, a code or a time may look like when it leaves the process in a log,
 * a metric or a stored error. Text that looks otherwise is dropped whole, never masked: drivers print values of rows, and
 * a redactor has to guess where they are (contract WF-2).
 */

/** The kinds of values that may be written. */
export type PrintableKind = 'name' | 'code' | 'sqlstate' | 'uuid' | 'person' | 'time' | 'number' | 'flag';

/** Names of our own and of a catalogue: letters, digits and `_ . $ : / { } -`; neither spaces nor `@`. */
const NAME = /^[\p{L}\p{N}_.$:/{}-]{1,128}$/u;
/** Reason codes, statuses, error codes, SQLSTATEs among them. */
const CODE = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const SQLSTATE = /^[0-9A-Z]{5}$/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** An operator's id may be an address; it is kept on purpose (contract WF-2). */
const PERSON = /^[\p{L}\p{N}_.$:/@+-]{1,128}$/u;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/;

const textRules = { name: NAME, code: CODE, sqlstate: SQLSTATE, uuid: UUID, person: PERSON, time: TIME } as const;

/** Whether `value` may be written as what it is said to be. */
export function isPrintable(value: unknown, kind: PrintableKind): value is string | number | boolean {
  if (kind === 'number') return typeof value === 'number' && Number.isFinite(value);
  if (kind === 'flag') return typeof value === 'boolean';
  return typeof value === 'string' && textRules[kind].test(value);
}

/** `value` where it is text of this kind, else undefined. */
export function printableText(value: unknown, kind: keyof typeof textRules): string | undefined {
  return typeof value === 'string' && textRules[kind].test(value) ? value : undefined;
}
