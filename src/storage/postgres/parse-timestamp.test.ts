import pg from 'pg';
import { expect, test } from 'vitest';
import { parseTimestamp } from './parse-timestamp.js';

const parseAny = pg.types.getTypeParser(pg.types.builtins.TIMESTAMPTZ) as (text: string) => Date | number;

test.each([
  '2026-12-01 03:30:13+00',
  '2026-12-01 03:30:13.7+00',
  '2026-12-01 03:30:13.735999+00',
  '2024-02-29 23:59:59.999999-11',
  '1850-01-01 00:00:00.25+05:53',
  '0001-01-01 00:00:00+00',
  '1850-01-01 00:00:00+00:53:28',
  '12026-12-01 03:30:13.735+00',
  '0044-03-15 12:00:00+00 BC',
  'infinity',
  '-infinity',
])('reads %s as the driver does', (text) => {
  expect(parseTimestamp(text)).toEqual(parseAny(text));
});
