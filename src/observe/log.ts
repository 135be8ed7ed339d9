/** The log: JSON lines on standard error, made of events and fields that are known beforehand. */
import { type DestinationStream, destination, type Logger, pino, stdTimeFunctions } from 'pino';
import { describeError } from './describe-error.js';
import { ExpungeError, type ErrorOutcome } from './expunge-error.js';
import { type LogEvent, logEvents, logFields, type LogFields } from './log-events.js';
import { isPrintable } from './printable.js';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

const levels: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];

type LogLine = (event: LogEvent, fields?: LogFields) => void;

/**
 * Writes events with fields. There is no place for free text, and so none for a value of somebody's row: the compiler
 * accepts known events and fields only, and what gets past it (from JavaScript, or as a value of the wrong kind) is dropped
 * and counted in `dropped`.
 *
 * @example
 * log.warn('lease_lost', { requestId, executorId, leaseGeneration: 3, error });
 */
export interface Log {
  readonly debug: LogLine;
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
  /** The same log, with these fields on every line. */
  child(fields: LogFields): Log;
}

export interface LogOptions {
  /** The lowest level that is written; `warn` by default. */
  readonly level?: LogLevel;
  /** Where lines go; standard error by default, synchronously, so that a killed process has said what it did. */
  readonly destination?: DestinationStream;
}

/** A level was asked for that does not exist. */
export class LogLevelError extends ExpungeError {
  readonly code = 'LOG_LEVEL_UNKNOWN';
  readonly outcome: ErrorOutcome = 'usage';
}

/**
 * The level that the environment asks for in `EXPUNGE_LOG`; `fallback` where it asks for none.
 * @throws LogLevelError where it is none of debug, info, warn, error and silent.
 */
export function logLevelFromEnvironment(
  env: Readonly<Record<string, string | undefined>> = process.env,
  fallback: LogLevel = 'warn',
): LogLevel {
  const asked = env['EXPUNGE_LOG'];
  if (asked === undefined || asked === '') return fallback;
  const level = levels.find((known) => known === asked);
  if (level !== undefined) return level;
  throw new LogLevelError(`EXPUNGE_LOG is not a level of the log: set it to one of ${levels.join(', ')}.`);
}

/** Opens a log. Without options: warnings and errors, on standard error. */
export function createLog(options: LogOptions = {}): Log {
  const sink = options.destination ?? destination({ fd: 2, sync: true });
  const writer = pino(
    {
      level: options.level ?? 'warn',
      base: { pid: process.pid },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    sink,
  );
  return logOver(writer);
}

/** Writes nothing. */
export const silentLog: Log = Object.freeze({
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  child: () => silentLog,
});

function nothing(): void {
  // A silent log has nothing to do.
}

/** What is used of pino. Its own child loggers print a field twice that a line sets again, so the merging is ours. */
type Writer = Pick<Logger, 'debug' | 'info' | 'warn' | 'error' | 'isLevelEnabled'>;

function logOver(writer: Writer, common: LogFields = {}): Log {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error'): LogLine =>
    (event, fields = {}) => {
      if (writer.isLevelEnabled(level)) writer[level](logLine(event, { ...common, ...fields }));
    };
  return Object.freeze({
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields: LogFields) => logOver(writer, { ...common, ...fields }),
  });
}

const knownEvents: ReadonlySet<string> = new Set(logEvents);

/** The part of a line that is ours: the event, and what of the fields may be written. */
function logLine(event: LogEvent, fields: LogFields): object {
  const line: Record<string, unknown> = { event: knownEvents.has(event) ? event : 'unknown_event' };
  let dropped = 0;
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    if (name === 'error') line['error'] = describeError(value);
    else if (isAllowed(name, value)) line[name] = value;
    else dropped += 1;
  }
  return dropped === 0 ? line : { ...line, dropped };
}

function isAllowed(name: string, value: unknown): boolean {
  return Object.hasOwn(logFields, name) && isPrintable(value, logFields[name as keyof typeof logFields]);
}
