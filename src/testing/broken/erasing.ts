/** Targets that leave something behind, do too much at once, or never end. */
import type { Answers, EraseOptions, EraseProgress, EraseSubject, SubjectBatch } from '../../targets/target.js';
import type { MemoryQuery } from '../memory-store.js';
import { MemoryTarget } from '../memory-target.js';

/** Off by one page: takes a page that came back full for the last one. */
export class OffByOnePage extends MemoryTarget {
  protected override async eraseSubject(
    subject: EraseSubject,
    limit: number,
    signal: AbortSignal,
  ): Promise<EraseProgress> {
    const progress = await super.eraseSubject(subject, limit, signal);
    const pages = limit > 0 && progress.reported.some(({ rows }) => rows >= limit);
    return pages ? { ...progress, cursor: null, done: true } : progress;
  }
}

/** Erases one place less than it declares. */
export class ForgetsThePlace extends MemoryTarget {
  protected override async eraseIn(
    place: string,
    query: MemoryQuery,
    limit: number,
    signal: AbortSignal,
  ): Promise<number> {
    return place === this.places.at(-1)?.[0] ? 0 : super.eraseIn(place, query, limit, signal);
  }
}

/** Gives every subject of the batch the whole limit. */
export class LimitPerSubject extends MemoryTarget {
  override async erase(batch: SubjectBatch<EraseSubject>, options: EraseOptions): Promise<Answers<EraseProgress>> {
    const answers: [string, EraseProgress][] = [];
    for (const [ref, subject] of batch) {
      answers.push([ref, await this.eraseSubject(subject, options.limit, options.signal)]);
    }
    return new Map(answers);
  }
}

/** Answers only for those that it had time for. */
export class ForgetsARef extends MemoryTarget {
  override async erase(batch: SubjectBatch<EraseSubject>, options: EraseOptions): Promise<Answers<EraseProgress>> {
    const answers = await super.erase(batch, options);
    const worked = [...answers].filter(
      ([, answer]) => answer instanceof Error || answer.done || answer.reported.some(({ rows }) => rows > 0),
    );
    return new Map(worked);
  }
}

/** Takes an empty page for a page that is still to come: where the last page was full it asks for ever. */
export class LoopsForEver extends MemoryTarget {
  protected override async eraseSubject(
    subject: EraseSubject,
    limit: number,
    signal: AbortSignal,
  ): Promise<EraseProgress> {
    const progress = await super.eraseSubject(subject, limit, signal);
    const nothing = progress.reported.every(({ rows }) => rows === 0);
    return subject.cursor !== null && nothing ? { ...progress, cursor: { place: 0 }, done: false } : progress;
  }
}

/** A statement for many keys that the driver cuts off at twenty. */
export class CutsTheBatch extends MemoryTarget {
  override async erase(batch: SubjectBatch<EraseSubject>, options: EraseOptions): Promise<Answers<EraseProgress>> {
    const kept = new Map([...batch].slice(0, 20));
    const cut = [...batch].slice(20).map(([ref]) => [ref, { cursor: null, done: true, reported: [] }] as const);
    return new Map([...(await super.erase(kept, options)), ...cut]);
  }
}
