/** Targets that talk. */
import { TargetFailedError, TargetUnavailableError } from '../../targets/target-error.js';
import type { EraseProgress, EraseSubject } from '../../targets/target.js';
import { MemoryStoreError } from '../memory-store.js';
import { MemoryTarget } from '../memory-target.js';

/** Quotes the driver, which quotes the key. */
export class QuotesTheDriver extends MemoryTarget {
  protected override asTargetError(place: string, error: unknown): unknown {
    if (!(error instanceof MemoryStoreError) || error.code !== 'CONNECTION_LOST')
      return super.asTargetError(place, error);
    return new TargetUnavailableError(`${this.name}: ${error.message}`, { target: this.name, place });
  }
}

/** Says nothing itself, and hands the driver's error on as the cause, where every logger prints it. */
export class HandsOnTheCause extends MemoryTarget {
  protected override asTargetError(place: string, error: unknown): unknown {
    const told = super.asTargetError(place, error);
    return told instanceof TargetUnavailableError
      ? new TargetUnavailableError(told.message, told.detail, { cause: error })
      : told;
  }
}

/** Saves the last key as its position, in a table that outlives the subject. */
export class KeyInTheCursor extends MemoryTarget {
  protected override async eraseSubject(
    subject: EraseSubject,
    limit: number,
    signal: AbortSignal,
  ): Promise<EraseProgress> {
    const progress = await super.eraseSubject(subject, limit, signal);
    return progress.done ? progress : { ...progress, cursor: { after: { ...subject.identifiers } } };
  }
}

/** Saves everything that it has done. */
export class GrowingCursor extends MemoryTarget {
  protected override async eraseSubject(
    subject: EraseSubject,
    limit: number,
    signal: AbortSignal,
  ): Promise<EraseProgress> {
    const progress = await super.eraseSubject(subject, limit, signal);
    if (progress.done) return progress;
    const { cursor } = subject;
    const before =
      typeof cursor === 'object' && cursor !== null && 'done' in cursor ? (cursor.done as readonly string[]) : [];
    return { ...progress, cursor: { done: [...before, ...Array.from({ length: limit }, () => 'x'.repeat(36))] } };
  }
}

/** Takes every abort, fault and mistake of its own for the same failure of the store. */
export class FailsAlways extends MemoryTarget {
  protected override asTargetError(place: string, error: unknown): unknown {
    return new TargetFailedError(`${this.name} failed in ${place}`, {
      target: this.name,
      place,
      cause: error instanceof MemoryStoreError ? error.code : 'UNKNOWN',
    });
  }
}
