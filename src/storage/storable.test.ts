import fc from 'fast-check';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase, describeWithPostgres, type TestDatabase } from '../../test/support/postgres.js';
import { type Database, recordset } from './database.js';
import type { JsonValue } from './json.js';
import { openPostgres } from './postgres/postgres-database.js';
import { STORABLE_TEXT_BYTES, storableJson, storableText } from './storable.js';

const bytes = (text: string): number => Buffer.byteLength(text, 'utf8');

/** Any UTF-16 at all: half surrogate pairs and NUL among the rest, more often than chance would have them. */
const unit = fc.oneof(
  fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)),
  fc.constantFrom('\u0000', '\ud83d', '\ude00', '😀', 'é', '€', 'a', '"', '\\'),
);
const anyText = fc.string({ unit, maxLength: 40 });
/** About as long as the limit, on both sides of it, so that the cut falls into every kind of character. */
const longText = fc
  .tuple(
    anyText,
    fc.constantFrom('a', 'é', '€', '😀', '\u0000', '\ud83d'),
    fc.integer({ min: 1000, max: 5000 }),
    anyText,
  )
  .map(([before, filler, times, after]) => before + filler.repeat(times) + after);
const text = fc.oneof(anyText, longText);
const limit = fc.oneof(fc.constant(STORABLE_TEXT_BYTES), fc.integer({ min: 0, max: 200 }));

const anyJson = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => (number === 0 ? 0 : number)),
    anyText,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(anyText, tie('value'), { maxKeys: 4 }),
  ),
})).value;

function textsOf(value: JsonValue): readonly string[] {
  if (typeof value === 'string') return [value];
  if (value === null || typeof value !== 'object') return [];
  return Object.entries(value as Record<string, JsonValue>).flatMap(([key, item]) => [key, ...textsOf(item)]);
}

describe('storable text', () => {
  test('is well-formed, without NUL, and within the limit', () => {
    fc.assert(
      fc.property(text, limit, (given, most) => {
        const stored = storableText(given, most);
        expect(stored.isWellFormed()).toBe(true);
        expect(stored).not.toContain('\u0000');
        expect(bytes(stored)).toBeLessThanOrEqual(most);
      }),
    );
  });

  test('is the longest beginning that fits and ends at the end of a character', () => {
    fc.assert(
      fc.property(text, limit, (given, most) => {
        const whole = [...storableText(given, Infinity)];
        const stored = [...storableText(given, most)];
        expect(whole.slice(0, stored.length)).toEqual(stored);
        const longer = whole.slice(0, stored.length + 1).join('');
        expect(stored.length === whole.length || bytes(longer) > most).toBe(true);
      }),
    );
  });

  test('is 4,096 bytes at most unless another limit is given', () => {
    expect(storableText('€'.repeat(5000))).toBe('€'.repeat(1365));
    expect(storableText('a'.repeat(5000))).toBe('a'.repeat(4096));
  });

  test('is the text itself where that can be stored', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 1000 }), (given) => {
        fc.pre(!given.includes('\u0000'));
        expect(storableText(given)).toBe(given);
      }),
    );
  });

  test('shows where a character was replaced', () => {
    expect(storableText('a\u0000b\ud83dc\ude00d😀')).toBe('a\uFFFDb\uFFFDc\uFFFDd😀');
  });
});

describe('storable JSON', () => {
  test('holds storable texts and keys only, and is uncut', () => {
    fc.assert(
      fc.property(anyJson, (given) => {
        const stored = storableJson(given);
        for (const found of textsOf(stored)) {
          expect(found.isWellFormed()).toBe(true);
          expect(found).not.toContain('\u0000');
        }
        expect(storableJson(stored)).toEqual(stored);
      }),
    );
    expect(storableJson({ long: 'a'.repeat(5000) })).toEqual({ long: 'a'.repeat(5000) });
  });

  test('is the value itself where that can be stored', () => {
    const given = { a: ['ä', 1, null, true, { b: '😀' }], ['__proto__']: 'a key like any other' };
    expect(storableJson(given)).toEqual(given);
    expect(Object.keys(storableJson(given))).toEqual(['a', '__proto__']);
  });
});

describeWithPostgres('PostgreSQL takes', () => {
  let own: TestDatabase;
  let database: Database;
  beforeAll(async () => {
    own = await createTestDatabase();
    database = openPostgres({ url: own.url });
  });
  afterAll(async () => {
    await database?.close();
    await own?.drop();
  });

  test('every storable text, as text and in jsonb, and gives it back', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(text, { minLength: 1, maxLength: 20 }), async (given) => {
        const rows = given.map((each, id) => ({
          id,
          as_text: storableText(each),
          as_json: { text: storableText(each) },
        }));
        const found = await sql`
          SELECT * FROM jsonb_to_recordset(${recordset(rows)}) AS r (id integer, as_text text, as_json jsonb)
           ORDER BY id`.execute(database.db);
        expect(found.rows).toEqual(rows);
        const [first] = rows;
        const single = await sql`SELECT ${first?.as_text ?? ''}::text AS text`.execute(database.db);
        expect(single.rows).toEqual([{ text: first?.as_text }]);
      }),
      { numRuns: 40 },
    );
  });

  test('every storable JSON value', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyJson, { minLength: 1, maxLength: 20 }), async (given) => {
        const rows = given.map((each, id) => ({ id, value: storableJson(each) }));
        const found = await sql`
          SELECT * FROM jsonb_to_recordset(${recordset(rows)}) AS r (id integer, value jsonb)
           ORDER BY id`.execute(database.db);
        expect(found.rows).toEqual(rows);
      }),
      { numRuns: 40 },
    );
  });

  test.each(['a\u0000', 'a\ud83d'])(
    'no such character as it stands: that is why %j is replaced',
    async (unstorable) => {
      const bare = sql`SELECT ${recordset([{ unstorable }])}`.execute(database.db);
      await expect(bare).rejects.toMatchObject({ code: expect.stringMatching(/^22P0[25]$/) as string });
    },
  );
});
