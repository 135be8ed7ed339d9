/** What a batch is submitted from: subjects one after the other, read twice, and never all in memory. */
import { createHmac, type Hmac } from 'node:crypto';
import { canonicalBytes } from '../evidence/canonical-json.js';
import type { KeyRing } from '../keys/key-ring.js';
import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';
import type { Subject } from '../subject/subject.js';
import type { Identifiers } from './deletable-subject.js';

/** One line: a subject, or what is wrong with the line, as the end of the sentence "line 7 …" and without its content. */
export type BatchLine =
  | { readonly position: number; readonly identifiers: Identifiers }
  | { readonly position: number; readonly fault: string };

/** Reads from the beginning, each time that it is called. Positions rise. */
export type BatchSource = () => AsyncIterable<BatchLine>;

/** Some lines cannot be used: nothing was recorded of any of them. */
export class InvalidBatchError extends ExpungeError {
  readonly code = 'INVALID_BATCH';
  readonly outcome: ErrorOutcome = 'refused';
}

/** The second reading found other subjects than the first. */
export class BatchChangedError extends ExpungeError {
  readonly code = 'BATCH_CHANGED';
  readonly outcome: ErrorOutcome = 'refused';

  constructor() {
    super(
      'What the batch is submitted from changed while it was read: nothing more was recorded; submit it again when it no longer changes, and cancel what was begun.',
    );
  }
}

/** So many lines are checked, counted, sealed and written together. */
export const PART_LINES = 1_000;

/** Groups what comes one by one. */
export async function* inParts<T>(items: AsyncIterable<T>, size: number = PART_LINES): AsyncGenerator<readonly T[]> {
  let part: T[] = [];
  for await (const item of items) {
    part.push(item);
    if (part.length < size) continue;
    yield part;
    part = [];
  }
  if (part.length > 0) yield part;
}

/** Separates these MACs from the others that are made with the same key. */
const DOMAIN = 'expunge/batch-submit/1';

/**
 * The keyed fingerprints of what was read: one for each part, so that the second reading is held against the first before
 * anything of it is written, and one over all. A plain hash of a short file could be found by trying out who stands in it.
 */
export class SourcePrints {
  readonly #ring: KeyRing;
  readonly #parts: string[] = [];

  constructor(ring: KeyRing) {
    this.#ring = ring;
  }

  add(part: readonly PartSubject[]): void {
    this.#parts.push(this.#printOf(part));
  }

  /** Whether this part was read as the part of this number before. */
  matches(index: number, part: readonly PartSubject[]): boolean {
    return this.#parts[index] === this.#printOf(part);
  }

  /** @param how - what else the submit is made of: the same subjects submitted in another way are another batch. */
  token(how: readonly (string | null)[]): string {
    const mac = this.#mac().update(canonicalBytes([DOMAIN, ...how]));
    for (const part of this.#parts) mac.update(part);
    return `batch1.${this.#ring.readingReferenceKeyId}.${mac.digest('base64url')}`;
  }

  #printOf(part: readonly PartSubject[]): string {
    const mac = this.#mac();
    for (const { position, subject } of part) {
      const values = subject.identifiers.flatMap(({ name, value }) => [name, value]);
      mac.update(`${JSON.stringify([position, ...values])}\n`);
    }
    return mac.digest('base64url');
  }

  #mac(): Hmac {
    return createHmac('sha256', this.#ring.referenceKey(this.#ring.readingReferenceKeyId).key);
  }
}

export interface PartSubject {
  readonly position: number;
  readonly subject: Subject;
}
