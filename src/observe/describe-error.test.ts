import fc from 'fast-check';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { describeWithPostgres, postgresServer } from '../../test/support/postgres.js';
import { describeError } from './describe-error.js';
import { ExpungeError, type ErrorOutcome } from './expunge-error.js';

class OwnError extends ExpungeError {
  readonly code = 'OWN_CODE';
  readonly outcome: ErrorOutcome = 'failed';
}

const MARKER = 'jane.doe@example.com';

describe('describeError', () => {
  it('gives code and message of an Expunge error, also where a library wrapped it', () => {
    const own = new OwnError('Target shop is blocked: look at it.', { cause: new Error(MARKER) });
    const expected = { code: 'OWN_CODE', message: 'Target shop is blocked: look at it.' };
    expect(describeError(own)).toEqual(expected);
    expect(describeError(new Error(MARKER, { cause: own }))).toEqual(expected);
  });

  it('walks causes and the parts of an AggregateError, each once', () => {
    const refused = Object.assign(new Error(MARKER), { code: 'ECONNREFUSED' });
    const all = new AggregateError([refused, Object.assign(new Error(MARKER), { status: 503 }), refused], MARKER);
    const error = new TypeError(MARKER, { cause: all });
    expect(describeError(error)).toEqual({
      code: 'ECONNREFUSED',
      message: 'TypeError, caused by AggregateError, caused by Error ECONNREFUSED, caused by Error HTTP_503',
    });
  });

  it('names an Expunge error among the parts of an AggregateError', () => {
    const error = new AggregateError([new OwnError('Something is wrong: mend it.')]);
    expect(describeError(error)).toEqual({ code: 'OWN_CODE', message: 'AggregateError, caused by OwnError OWN_CODE' });
  });

  it('reads errno names before SQLSTATEs of the same form', () => {
    expect(describeError(Object.assign(new Error(), { code: 'EPIPE', table: 'person' })).message).toBe('Error EPIPE');
  });

  it('reads the HTTP status of SDKs that keep it in $metadata', () => {
    expect(describeError({ $metadata: { httpStatusCode: 429 } })).toEqual({
      code: 'HTTP_429',
      message: 'Object HTTP_429',
    });
  });

  it('ends on a circle of causes, and bounds a long chain', () => {
    const circle = new Error(MARKER);
    circle.cause = circle;
    expect(describeError(circle)).toEqual({ code: 'UNEXPECTED', message: 'Error' });
    const long = Array.from({ length: 50 }).reduce<Error>((cause) => new Error(MARKER, { cause }), new Error(MARKER));
    expect(describeError(long).message.split('caused by')).toHaveLength(8);
  });

  it('does not throw on what is no error, or throws when it is read', () => {
    const hostile = new Proxy(
      {},
      {
        get: () => {
          throw new Error(MARKER);
        },
      },
    );
    const unexpected = { code: 'UNEXPECTED', message: 'Something that is no error was thrown' };
    for (const thrown of [MARKER, 42, null, undefined]) expect(describeError(thrown)).toEqual(unexpected);
    expect(describeError(hostile)).toEqual({ code: 'UNEXPECTED', message: 'Error' });
  });

  it('WF-2: never prints what an error holds outside of the allow-list', () => {
    fc.assert(
      fc.property(errorHolding(MARKER, [...unlisted, 'table', 'constraint']), (error) => {
        expect(JSON.stringify(describeError(error))).not.toContain(MARKER);
      }),
      { numRuns: 500 },
    );
  });

  it('WF-2: never prints a value that looks like a name, from a property that holds no name', () => {
    fc.assert(
      fc.property(errorHolding('JaneDoe1977', unlisted), (error) => {
        expect(JSON.stringify(describeError(error))).not.toContain('JaneDoe1977');
      }),
      { numRuns: 500 },
    );
  });
});

describeWithPostgres('describeError, of an error of PostgreSQL', () => {
  it('WF-2: gives SQLSTATE, table and constraint of a driver error, and none of the values that it prints', async () => {
    const client = new pg.Client(process.env[postgresServer.variable]);
    await client.connect();
    const error: unknown = await client
      .query(`CREATE TEMP TABLE person (email text CONSTRAINT person_email PRIMARY KEY)`)
      .then(() => client.query('INSERT INTO person VALUES ($1), ($1)', [MARKER]))
      .catch((thrown: unknown) => thrown)
      .finally(() => client.end());
    expect((error as pg.DatabaseError).detail).toContain(MARKER);
    expect(describeError(error)).toEqual({
      code: '23505',
      message: 'DatabaseError 23505 at table person, constraint person_email',
    });
  });
});

/** Properties that drivers and SDKs are known to fill with values, or that decide what is printed. */
const unlisted = [
  'name',
  'message',
  'stack',
  'detail',
  'hint',
  'where',
  'internalQuery',
  'query',
  'sql',
  'parameters',
  'code',
  'errno',
  'column',
  'status',
  'statusCode',
  'response',
  'config',
  'path',
  'address',
  'errors',
  'constructor',
  '$metadata',
];

/** Errors of many forms with the marker in these properties, in unknown ones, and in causes and parts. */
function errorHolding(marker: string, properties: readonly string[]): fc.Arbitrary<unknown> {
  const text = fc.constantFrom(marker, `Key (email)=(${marker}) already exists.`, ` ${marker}`, `${marker}\u0000`);
  const property = fc.constantFrom(...properties);
  const fields = fc.dictionary(
    fc.oneof(property, fc.string({ maxLength: 8 })),
    fc.oneof(text, fc.array(text), fc.record({ name: text })),
  );
  return fc.letrec((tie) => ({
    error: fc.oneof(
      { depthSize: 'small' },
      text,
      fc
        .record({
          message: text,
          fields,
          sqlstate: fc.option(fc.constantFrom('23505', '57P01', 'ECONNRESET')),
          aggregate: fc.boolean(),
        })
        .map(({ message, fields: extra, sqlstate, aggregate }) => {
          const error = aggregate ? new AggregateError([new Error(message)], message) : new Error(message);
          return Object.assign(error, extra, sqlstate === null ? {} : { code: sqlstate });
        }),
      fc.tuple(text, tie('error')).map(([message, cause]) => new Error(message, { cause })),
      fc
        .tuple(text, fc.array(tie('error'), { maxLength: 3 }))
        .map(([message, errors]) => new AggregateError(errors, message)),
    ),
  })).error;
}
