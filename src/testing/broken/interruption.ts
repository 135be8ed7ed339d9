/** Targets that only work when nothing happens in between. */
import { TargetBlockedError, TargetFailedError } from '../../targets/target-error.js';
import type { EraseProgress, EraseSubject } from '../../targets/target.js';
import type { MemoryQuery } from '../memory-store.js';
import { MemoryTarget } from '../memory-target.js';

/** Keeps its position in memory, and takes a position that it does not know for the end. */
export class RemembersInMemory extends MemoryTarget {
  #position = 0;

  protected override async eraseSubject(
    subject: EraseSubject,
    limit: number,
    signal: AbortSignal,
  ): Promise<EraseProgress> {
    if (subject.cursor !== null && this.#position === 0) return { cursor: null, done: true, reported: [] };
    const progress = await super.eraseSubject({ ...subject, cursor: null }, limit, signal);
    this.#position = progress.done ? 0 : this.#position + 1;
    return progress.done ? progress : { ...progress, cursor: { session: this.#position } };
  }
}

/** Takes a start from nothing for a double start, as a job queue with unique jobs does. */
export class StartsOnce extends MemoryTarget {
  static readonly #started = new Set<string>();

  protected override async eraseSubject(
    subject: EraseSubject,
    limit: number,
    signal: AbortSignal,
  ): Promise<EraseProgress> {
    const job = JSON.stringify(subject.identifiers);
    if (subject.cursor === null && StartsOnce.#started.has(job)) return { cursor: null, done: true, reported: [] };
    const progress = await super.eraseSubject(subject, limit, signal);
    if (progress.done) StartsOnce.#started.delete(job);
    else StartsOnce.#started.add(job);
    return progress;
  }
}

/** Refuses a cursor that does not fit what is left. */
export class CursorOnce extends MemoryTarget {
  protected override async eraseSubject(
    subject: EraseSubject,
    limit: number,
    signal: AbortSignal,
  ): Promise<EraseProgress> {
    const { cursor } = subject;
    const expected = typeof cursor === 'object' && cursor !== null && 'left' in cursor ? cursor.left : null;
    if (expected !== null && expected !== (await this.#left(subject, signal))) {
      throw new TargetFailedError(`${this.name} was given an old cursor`, { target: this.name });
    }
    const progress = await super.eraseSubject(subject, limit, signal);
    return progress.done ? progress : { ...progress, cursor: { left: await this.#left(subject, signal) } };
  }

  async #left(subject: EraseSubject, signal: AbortSignal): Promise<number> {
    let left = 0;
    for (const [place, columns] of this.places)
      left += await this.countIn(place, this.query(place, columns, subject), signal);
    return left;
  }
}

/** Saves that it is at its end, and looks at nothing when it is asked to go on from there. */
export class FinalCursor extends MemoryTarget {
  protected override async eraseSubject(
    subject: EraseSubject,
    limit: number,
    signal: AbortSignal,
  ): Promise<EraseProgress> {
    if (subject.cursor === 'end') return { cursor: 'end', done: true, reported: [] };
    const progress = await super.eraseSubject(subject, limit, signal);
    return progress.done ? { ...progress, cursor: 'end' } : progress;
  }
}

/** Takes "not there" for a failure. */
export class AbsentIsAnError extends MemoryTarget {
  protected override async eraseSubject(
    subject: EraseSubject,
    limit: number,
    signal: AbortSignal,
  ): Promise<EraseProgress> {
    const progress = await super.eraseSubject(subject, limit, signal);
    if (subject.cursor === null && limit > 0 && progress.reported.every(({ rows }) => rows === 0)) {
      throw new TargetFailedError(`${this.name} found nothing to erase`, { target: this.name });
    }
    return progress;
  }
}

/** Takes rows that somebody else erased first for a corruption. */
export class RefusesARace extends MemoryTarget {
  protected override async eraseIn(
    place: string,
    query: MemoryQuery,
    limit: number,
    signal: AbortSignal,
  ): Promise<number> {
    const seen = await this.ask(place, () => this.erasing.select(place, query, { limit }, signal));
    const rows = await super.eraseIn(place, query, limit, signal);
    if (rows !== seen.length)
      throw new TargetBlockedError(`${this.name} lost rows in ${place}`, { target: this.name, place });
    return rows;
  }
}
