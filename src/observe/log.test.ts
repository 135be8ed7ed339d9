import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isExpungeError } from './expunge-error.js';
import type { LogEvent } from './log-events.js';
import { createLog, type Log, type LogLevel, logLevelFromEnvironment, silentLog } from './log.js';

const REQUEST = '01993c1e-5d1c-7000-8000-000000000001';
const MARKER = 'jane.doe@example.com';

function capture(level?: LogLevel): { log: Log; lines: Record<string, unknown>[]; text: () => string } {
  const written: string[] = [];
  const lines: Record<string, unknown>[] = [];
  const destination = {
    write: (line: string) => {
      written.push(line);
      lines.push(JSON.parse(line) as Record<string, unknown>);
    },
  };
  const log = createLog(level === undefined ? { destination } : { destination, level });
  return { log, lines, text: () => written.join('') };
}

describe('the log', () => {
  it('writes one JSON line an event: level, time, process, event and fields', () => {
    const { log, lines } = capture();
    log.warn('lease_lost', {
      requestId: REQUEST,
      executorId: 'host-17-ab',
      leaseGeneration: 3,
      until: '2026-01-02T03:04:05Z',
    });
    expect(lines).toEqual([
      {
        level: 'warn',
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string,
        pid: process.pid,
        event: 'lease_lost',
        requestId: REQUEST,
        executorId: 'host-17-ab',
        leaseGeneration: 3,
        until: '2026-01-02T03:04:05Z',
      },
    ]);
  });

  it('writes warnings and errors unless told otherwise', () => {
    const quiet = capture();
    const loud = capture('debug');
    const none = capture('silent');
    for (const { log } of [quiet, loud, none]) {
      log.debug('request_claimed');
      log.info('stage_started');
      log.warn('stage_failed');
      log.error('request_blocked');
    }
    expect(quiet.lines.map(({ event }) => event)).toEqual(['stage_failed', 'request_blocked']);
    expect(loud.lines).toHaveLength(4);
    expect(none.lines).toHaveLength(0);
  });

  it('reduces an error to its description', () => {
    const { log, lines } = capture();
    const error = Object.assign(new Error(`Key (email)=(${MARKER}) already exists.`), {
      code: '23505',
      table: 'person',
    });
    log.error('target_failed', { target: 'operational', error });
    expect(lines[0]).toMatchObject({
      target: 'operational',
      error: { code: '23505', message: 'Error 23505 at table person' },
    });
  });

  it('puts the fields of a child on every line, and lets a line replace one', () => {
    const { log, lines, text } = capture();
    log.child({ requestId: REQUEST }).child({ target: 'operational' }).warn('target_failed', { target: 'artifacts' });
    expect(lines[0]).toMatchObject({ requestId: REQUEST, target: 'artifacts' });
    expect(text().match(/"target"/g)).toHaveLength(1);
  });

  it('refuses unknown events, unknown fields and values of the wrong kind when compiling, and drops them when running', () => {
    const { log, lines, text } = capture();
    // @ts-expect-error -- free text is no event
    log.warn(`could not delete ${MARKER}`, {
      requestId: REQUEST,
      email: MARKER,
    });
    // @ts-expect-error -- no such field
    log.warn('target_failed', { email: MARKER });
    // @ts-expect-error -- a count is a number
    log.warn('target_failed', { count: '7 rows' });
    log.warn('target_failed', {
      table: `customer of ${MARKER}`,
      requestId: MARKER,
      count: Number.NaN,
      target: undefined,
    });
    expect(lines.map(({ event, dropped }) => [event, dropped])).toEqual([
      ['unknown_event', 1],
      ['target_failed', 1],
      ['target_failed', 1],
      ['target_failed', 3],
    ]);
    expect(text()).not.toContain(MARKER);
  });

  it('keeps what describeError answers as a code', () => {
    const { log, lines } = capture();
    for (const code of ['40P01', 'ECONNRESET', 'HTTP_503', 'TARGET_BLOCKED']) log.error('target_failed', { code });
    expect(lines.map(({ code }) => code)).toEqual(['40P01', 'ECONNRESET', 'HTTP_503', 'TARGET_BLOCKED']);
  });

  it('keeps an operator whose id is an address', () => {
    const { log, lines } = capture('info');
    log.info('request_approved', { operatorId: 'op+1@corp.example' });
    expect(lines[0]).toMatchObject({ operatorId: 'op+1@corp.example' });
  });

  it('WF-2: never writes a value that stands where a name, a code or a number should', () => {
    const value = fc.constantFrom(MARKER, `(${MARKER})`, `${MARKER}\n`);
    const anything = fc.oneof(
      value,
      fc.array(value),
      fc.record({ deep: value }),
      value.map((text) => new Error(text)),
    );
    const names = fc.constantFrom(
      'requestId',
      'opaqueId',
      'table',
      'code',
      'sqlstate',
      'count',
      'retryable',
      'until',
      'error',
      'email',
      '__proto__',
      'level',
      'msg',
    );
    fc.assert(
      fc.property(fc.dictionary(names, anything), value, (fields, event) => {
        const { log, text } = capture();
        log.error(event as LogEvent, fields);
        log.child(fields).error('target_failed');
        expect(text()).not.toContain(MARKER);
        expect(text().split('\n')).toHaveLength(3);
      }),
    );
  });

  it('the silent log has silent children', () => {
    expect(silentLog.child({ count: 1 })).toBe(silentLog);
    expect(silentLog.error('target_failed')).toBeUndefined();
  });
});

describe('the level of the log', () => {
  it('comes from EXPUNGE_LOG, and is warn without it', () => {
    expect(logLevelFromEnvironment({})).toBe('warn');
    expect(logLevelFromEnvironment({ EXPUNGE_LOG: '' }, 'info')).toBe('info');
    expect(logLevelFromEnvironment({ EXPUNGE_LOG: 'debug' })).toBe('debug');
  });

  it('is refused where it is unknown, without repeating it', () => {
    const thrown = catchError(() => logLevelFromEnvironment({ EXPUNGE_LOG: MARKER }));
    expect(isExpungeError(thrown, 'LOG_LEVEL_UNKNOWN')).toBe(true);
    expect(String(thrown)).not.toContain(MARKER);
  });
});

function catchError(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}
