/** Durations as they are written in the configuration: ISO 8601. */
import { Temporal } from 'temporal-polyfill';

/** A length of time that is not negative. */
export interface IsoDuration {
  /** ISO 8601: `P30D`, `PT15M`, `P3M`. PostgreSQL reads it as an interval. */
  readonly iso: string;
  /**
   * The same in seconds, with a day of 24 hours and a week of 7 days; null where it counts months or years, whose length
   * depends on when they begin.
   */
  readonly seconds: number | null;
}

/** Nothing that is configured lasts longer; what a calendar cannot reach is a slip of the keyboard. */
const LONGEST = Temporal.Duration.from({ years: 100 });
/** Somewhere to count calendar units from. */
const SOME_DAY = Temporal.PlainDate.from('2001-01-01');

/** Reads ISO 8601 text of at most 100 years; null where it is none, or negative. */
export function parseIsoDuration(text: string): IsoDuration | null {
  const duration = readDuration(text);
  if (duration === null || duration.sign < 0) return null;
  if (Temporal.Duration.compare(duration, LONGEST, { relativeTo: SOME_DAY }) > 0) return null;
  return Object.freeze({ iso: duration.toString(), seconds: exactSeconds(duration) });
}

function readDuration(text: string): Temporal.Duration | null {
  try {
    return Temporal.Duration.from(text);
  } catch {
    return null;
  }
}

function exactSeconds(duration: Temporal.Duration): number | null {
  if (duration.years !== 0 || duration.months !== 0) return null;
  const days = duration.weeks * 7 + duration.days;
  return duration.with({ weeks: 0, days }).total('seconds');
}

/**
 * Whether `one` ends before `other` when both begin on the same day, for at least one day. February decides: P1M is shorter
 * than P30D, and P30D is shorter than P1M.
 */
export function canEndBefore(one: IsoDuration, other: IsoDuration): boolean {
  if (one.seconds !== null && other.seconds !== null) return one.seconds < other.seconds;
  const [left, right] = [Temporal.Duration.from(one.iso), Temporal.Duration.from(other.iso)];
  return decisiveDays().some((day) => Temporal.Duration.compare(left, right, { relativeTo: day }) < 0);
}

/**
 * The first and last day of every month in four years. Within a month the difference of two durations only grows, or only
 * shrinks, with the day on which they begin (later days are cut to the end of a shorter month), so that these have its
 * extremes; four years have every sequence of months but that around a century without a leap day.
 */
function decisiveDays(): readonly Temporal.PlainDate[] {
  return Array.from({ length: 4 * 12 }, (_, month) => SOME_DAY.add({ months: month })).flatMap((first) => [
    first,
    first.with({ day: first.daysInMonth }),
  ]);
}
