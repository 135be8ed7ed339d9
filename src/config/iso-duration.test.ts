import fc from 'fast-check';
import { Temporal } from 'temporal-polyfill';
import { describe, expect, it } from 'vitest';
import { canEndBefore, type IsoDuration, parseIsoDuration } from './iso-duration.js';

function duration(text: string): IsoDuration {
  const parsed = parseIsoDuration(text);
  if (parsed === null) throw new Error(`${text} is no duration.`);
  return parsed;
}

describe('parseIsoDuration', () => {
  it.each([
    ['P7D', 'P7D', 604_800],
    ['PT0S', 'PT0S', 0],
    ['P0D', 'PT0S', 0],
    ['P2W', 'P2W', 1_209_600],
    ['P1DT1H1M1.5S', 'P1DT1H1M1.5S', 90_061.5],
    ['p1d', 'P1D', 86_400],
    ['P1M', 'P1M', null],
    ['P1Y2W', 'P1Y2W', null],
    ['P100Y', 'P100Y', null],
  ])('reads %s', (text, iso, seconds) => {
    expect(parseIsoDuration(text)).toEqual({ iso, seconds });
  });

  it.each(['', '7', '7d', 'P', 'PT', 'P-1D', '-P1D', 'P1.5D', 'P1D ', 'P101Y', 'P40000D', 'P99999999999999Y', '1 day'])(
    'refuses %j',
    (text) => {
      expect(parseIsoDuration(text)).toBeNull();
    },
  );

  it('gives the seconds of everything that has no calendar units', () => {
    const part = fc.nat(1_000);
    fc.assert(
      fc.property(part, part, part, part, (days, hours, minutes, seconds) => {
        const iso = `P${String(days)}DT${String(hours)}H${String(minutes)}M${String(seconds)}S`;
        expect(duration(iso).seconds).toBe(((days * 24 + hours) * 60 + minutes) * 60 + seconds);
      }),
    );
  });
});

describe('canEndBefore', () => {
  it.each([
    ['P29D', 'P30D', true],
    ['P30D', 'P30D', false],
    ['P4W', 'P28D', false],
    ['P1M', 'P30D', true],
    ['P30D', 'P1M', true],
    ['P1M', 'P28D', false],
    ['P31D', 'P1M', false],
    ['P12M', 'P1Y', false],
    ['P365D', 'P1Y', true],
    ['P366D', 'P1Y', false],
    ['P1Y', 'P366D', true],
    ['P3M', 'P89D', false],
    ['P3M', 'P90D', true],
  ])('%s before %s: %s', (one, other, expected) => {
    expect(canEndBefore(duration(one), duration(other))).toBe(expected);
  });

  it('finds the day that decides, wherever in a month it is', () => {
    const first = Temporal.PlainDate.from('2024-01-01');
    const days = Array.from({ length: 1_461 }, (_, day) => first.add({ days: day }));
    const parts = fc.record({ months: fc.nat(14), days: fc.nat(70) });
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        const [left, right] = [Temporal.Duration.from(one), Temporal.Duration.from(other)];
        const expected = days.some((day) => Temporal.PlainDate.compare(day.add(left), day.add(right)) < 0);
        expect(canEndBefore(duration(left.toString()), duration(right.toString()))).toBe(expected);
      }),
      { numRuns: 15 },
    );
  });
});
