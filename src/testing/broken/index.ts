/**
 * Targets that are wrong on purpose, each in one way that real ones were, and each caught by the kit. They show what the
 * checks are for, and keep the kit honest: a check that no broken target fails proves nothing.
 */
import type { MemoryTargetClass } from '../memory-harness.js';
import * as counting from './counting.js';
import * as discretion from './discretion.js';
import * as erasing from './erasing.js';
import * as faults from './faults.js';
import * as interruption from './interruption.js';
import * as matching from './matching.js';

export interface BrokenTarget {
  readonly Target: MemoryTargetClass;
  /** The ids of the checks that fail, and of no others. */
  readonly caughtBy: readonly string[];
}

/** By the name of what is wrong with each. */
export const brokenTargets: Readonly<Record<string, BrokenTarget>> = {
  'retains without a basis': { Target: counting.RetainsWithoutBasis, caughtBy: ['describes-places'] },
  'omits empty places': { Target: counting.OmitsEmptyPlaces, caughtBy: ['counts-every-place'] },
  'counts one page': { Target: counting.CountsOnePage, caughtBy: ['counts-what-is-there'] },
  'counts from a stale cache': { Target: counting.StaleCache, caughtBy: ['counts-afresh'] },
  'believes the row count of its deletes': {
    Target: counting.BelievesTheRowCount,
    caughtBy: ['works-beside-another', 'believes-no-delete'],
  },
  'forgets a place': { Target: erasing.ForgetsThePlace, caughtBy: ['erases-everything'] },
  'is off by one page': { Target: erasing.OffByOnePage, caughtBy: ['erases-pages'] },
  'gives every subject the limit': { Target: erasing.LimitPerSubject, caughtBy: ['keeps-to-the-limit'] },
  'loops for ever': { Target: erasing.LoopsForEver, caughtBy: ['comes-to-an-end'] },
  'forgets a ref': { Target: erasing.ForgetsARef, caughtBy: ['answers-every-subject'] },
  'cuts the batch': { Target: erasing.CutsTheBatch, caughtBy: ['erases-many'] },
  'deletes between the keys of a batch': { Target: matching.BetweenTheBatch, caughtBy: ['leaves-others-alone'] },
  "deletes the neighbour's prefix": { Target: matching.NeighboursPrefix, caughtBy: ['matches-no-affix'] },
  'compares with LIKE': { Target: matching.LikeForEquality, caughtBy: ['matches-no-pattern'] },
  'folds case and accents': { Target: matching.FoldingCollation, caughtBy: ['folds-nothing'] },
  'truncates keys': { Target: matching.TruncatedKey, caughtBy: ['compares-long-values'] },
  'puts its statement together': { Target: matching.ConcatenatedStatement, caughtBy: ['takes-values-literally'] },
  'compares the first column': { Target: matching.FirstColumnOnly, caughtBy: ['compares-every-column'] },
  'leaves out an empty filter': { Target: matching.EmptyFilter, caughtBy: ['refuses-an-empty-key'] },
  'remembers in memory': { Target: interruption.RemembersInMemory, caughtBy: ['resumes-from-its-cursor'] },
  'starts once': { Target: interruption.StartsOnce, caughtBy: ['resumes-without-a-cursor'] },
  'takes a cursor once': { Target: interruption.CursorOnce, caughtBy: ['applies-a-cursor-twice'] },
  'stays at its end': { Target: interruption.FinalCursor, caughtBy: ['looks-again-after-its-end'] },
  'takes absence for a failure': { Target: interruption.AbsentIsAnError, caughtBy: ['erases-what-is-gone'] },
  'refuses a race': { Target: interruption.RefusesARace, caughtBy: ['works-beside-another'] },
  'quotes the driver': { Target: discretion.QuotesTheDriver, caughtBy: ['says-nothing-of-the-data'] },
  'hands on the cause': { Target: discretion.HandsOnTheCause, caughtBy: ['says-nothing-of-the-data'] },
  'puts the key into its cursor': { Target: discretion.KeyInTheCursor, caughtBy: ['says-nothing-of-the-data'] },
  'lets its cursor grow': { Target: discretion.GrowingCursor, caughtBy: ['keeps-its-cursor-small'] },
  'calls everything a failure': { Target: discretion.FailsAlways, caughtBy: ['waits-for-a-store-that-is-down'] },
  'answers with a false zero': { Target: faults.FalseZero, caughtBy: ['admits-failures'] },
  'takes a missing place for an empty one': { Target: faults.MissingIsEmpty, caughtBy: ['misses-its-places'] },
  'ignores its signal': { Target: faults.IgnoresItsSignal, caughtBy: ['ends-when-aborted'] },
  'revokes one session': { Target: faults.RevokesOne, caughtBy: ['revokes-access'] },
  'locates one of several': { Target: faults.LocatesOne, caughtBy: ['locates'] },
  'cleans up something else': { Target: counting.CleansUpElsewhere, caughtBy: ['cleans-up'] },
};
