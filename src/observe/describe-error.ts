/** What may be stored and logged about an error, whoever threw it. */
import { constants } from 'node:os';
import { type ExpungeError, findExpungeError } from './expunge-error.js';
import { printableText } from './printable.js';

/** Fit for a `last_error` column and for a log: free of personal data. */
export interface ErrorDescription {
  /** Our own code, else an SQLSTATE, an errno name, `HTTP_503`; `UNEXPECTED` where nothing is known. */
  readonly code: string;
  /** Our own sentence, else the allow-listed facts of the error and its causes. Never a foreign message. */
  readonly message: string;
}

/** What is read from one error of a driver or a runtime. Everything else in it may hold the values of rows. */
interface Facts {
  readonly name: string;
  /** One of our own codes, an errno name or a code of Node, an SQLSTATE, or an HTTP status. */
  readonly code?: string;
  readonly table?: string;
  readonly constraint?: string;
}

/** At most so many errors of a chain or tree are described. */
const MAX_ERRORS = 8;

/**
 * Describes `error` by an allow-list. Of an Expunge error, or of one that a library wrapped, the code and the message:
 * these are written to hold no personal data. Of any other error the name of its class, SQLSTATE, errno, HTTP status,
 * constraint and table, through causes and the parts of an AggregateError; never its message, detail or parameters,
 * because drivers print values there. Never throws.
 *
 * @example
 * describeError(error); // { code: '23505', message: 'DatabaseError 23505 at table invoice, constraint invoice_pkey' }
 */
export function describeError(error: unknown): ErrorDescription {
  const own = findOwn(error);
  if (own !== null) return own;
  const chain = collectFacts(error);
  if (chain.length === 0) return { code: 'UNEXPECTED', message: 'Something that is no error was thrown' };
  const code = chain.find((facts) => facts.code !== undefined)?.code;
  return { code: code ?? 'UNEXPECTED', message: chain.map(print).join(', caused by ') };
}

function findOwn(error: unknown): ErrorDescription | null {
  try {
    const own: ExpungeError | null = findExpungeError(error);
    return own === null ? null : { code: String(own.code), message: String(own.message) };
  } catch {
    return null;
  }
}

/** The error, then its causes and parts, nearest first. */
function collectFacts(error: unknown): readonly Facts[] {
  const queue: unknown[] = [error];
  const seen = new Set<unknown>();
  const found: Facts[] = [];
  while (queue.length > 0 && found.length < MAX_ERRORS) {
    const next = queue.shift();
    if (typeof next !== 'object' || next === null || seen.has(next)) continue;
    seen.add(next);
    found.push(factsOf(next));
    queue.push(read(next, 'cause'), ...firstParts(read(next, 'errors')));
  }
  return found;
}

function firstParts(errors: unknown): readonly unknown[] {
  return Array.isArray(errors) ? errors.slice(0, MAX_ERRORS) : [];
}

function factsOf(error: object): Facts {
  const name = className(error);
  const code = read(error, 'code');
  const known = findOwn(error)?.code ?? errnoName(code);
  if (known !== undefined) return { name, code: known };
  const sqlstate = printableText(code, 'sqlstate');
  if (sqlstate !== undefined) return { name, code: sqlstate, ...relation(error) };
  const httpStatus = httpStatusOf(error);
  return httpStatus === undefined ? { name } : { name, code: `HTTP_${String(httpStatus)}` };
}

/** Only PostgreSQL's own errors carry these as names of the catalogue; elsewhere they could be anything. */
function relation(error: object): Pick<Facts, 'table' | 'constraint'> {
  const table = printableText(read(error, 'table'), 'name');
  const constraint = printableText(read(error, 'constraint'), 'name');
  return { ...(table !== undefined && { table }), ...(constraint !== undefined && { constraint }) };
}

function errnoName(code: unknown): string | undefined {
  if (typeof code !== 'string') return undefined;
  if (Object.hasOwn(constants.errno, code)) return code;
  return /^(ERR|ENOTFOUND|EAI|UND_ERR)[A-Z0-9_]{0,60}$/.test(code) ? code : undefined;
}

function httpStatusOf(error: object): number | undefined {
  const metadata = read(error, '$metadata');
  const nested = typeof metadata === 'object' && metadata !== null ? read(metadata, 'httpStatusCode') : undefined;
  return [read(error, 'status'), read(error, 'statusCode'), nested].find(isHttpStatus);
}

function isHttpStatus(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 100 && value <= 599;
}

/** The class's own name. An error's `name` property is text that a library may write anything into. */
function className(error: object): string {
  const constructor = read(error, 'constructor');
  const name = typeof constructor === 'function' ? read(constructor, 'name') : undefined;
  return typeof name === 'string' && /^[A-Za-z_$][A-Za-z0-9_$]{0,63}$/.test(name) ? name : 'Error';
}

/** Reading a property of a foreign object can run its code. */
function read(object: object, property: string): unknown {
  try {
    return (object as Record<string, unknown>)[property];
  } catch {
    return undefined;
  }
}

function print({ name, code, table, constraint }: Facts): string {
  const places = [table && `table ${table}`, constraint && `constraint ${constraint}`].filter(Boolean);
  const at = places.length === 0 ? '' : ` at ${places.join(', ')}`;
  return `${name}${code === undefined ? '' : ` ${code}`}${at}`;
}
