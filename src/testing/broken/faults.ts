/** Targets that take a fault for an answer. */
import { TargetDeclarationError, TargetError } from '../../targets/target-error.js';
import type {
  Answers,
  EraseOptions,
  EraseProgress,
  EraseSubject,
  PlaceCount,
  SubjectBatch,
  TargetSubject,
} from '../../targets/target.js';
import type { MemoryQuery } from '../memory-store.js';
import { MemoryTarget } from '../memory-target.js';

/** Takes a page that could not be read for an empty one. Where the store is down altogether it says so. */
export class FalseZero extends MemoryTarget {
  protected override async countIn(place: string, query: MemoryQuery, signal: AbortSignal): Promise<number> {
    await this.ask(place, () => this.counting.check(place, signal));
    try {
      return await super.countIn(place, query, signal);
    } catch (error) {
      if (error instanceof TargetError) return 0;
      throw error;
    }
  }
}

/** Takes a table that is not there for a table without rows. */
export class MissingIsEmpty extends MemoryTarget {
  protected override async countIn(place: string, query: MemoryQuery, signal: AbortSignal): Promise<number> {
    return zeroWhereMissing(super.countIn(place, query, signal));
  }

  protected override async eraseIn(
    place: string,
    query: MemoryQuery,
    limit: number,
    signal: AbortSignal,
  ): Promise<number> {
    return zeroWhereMissing(super.eraseIn(place, query, limit, signal));
  }
}

async function zeroWhereMissing(rows: Promise<number>): Promise<number> {
  try {
    return await rows;
  } catch (error) {
    if (error instanceof TargetDeclarationError) return 0;
    throw error;
  }
}

/** Waits for the store, whatever the caller wants. */
export class IgnoresItsSignal extends MemoryTarget {
  override async count(batch: SubjectBatch): Promise<Answers<readonly PlaceCount[]>> {
    return super.count(batch, new AbortController().signal);
  }

  override async erase(batch: SubjectBatch<EraseSubject>, options: EraseOptions): Promise<Answers<EraseProgress>> {
    return super.erase(batch, { ...options, signal: new AbortController().signal });
  }
}

/** Ends the sessions that it has on its first page. */
export class RevokesOne extends MemoryTarget {
  override async revoke(
    batch: SubjectBatch,
    signal: AbortSignal,
  ): Promise<Answers<readonly { place: string; rows: number }[]>> {
    const answers = new Map<string, readonly { place: string; rows: number }[]>();
    for (const [ref, subject] of batch) {
      const query = this.query('sessions', ['tenantId', 'customerId'], subject);
      answers.set(ref, [{ place: 'sessions', rows: await this.eraseIn('sessions', query, 1, signal) }]);
    }
    return answers;
  }
}

/** Resolves the first locator where there are several. */
export class LocatesOne extends MemoryTarget {
  protected override async locateIn(
    place: string,
    column: string,
    subject: TargetSubject,
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    return (await super.locateIn(place, column, subject, signal)).slice(0, 1);
  }
}
