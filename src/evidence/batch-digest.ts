/**
 * The digest of a batch: one text that stands for the digests of all its members' first inventories, so that many deletions
 * are approved as one (contract WF-8). It is fed member by member, and needs no more memory for a million of them.
 */
import { createHash } from 'node:crypto';
import { canonicalJson } from './canonical-json.js';

/** Separates these digests from every other hash. Raised with the form of what follows it. */
const DOMAIN = 'expunge/batch-digest/1';

export interface BatchMemberDigest {
  /** The member's line in what the batch was submitted from. */
  readonly position: number;
  /** The digest of its first inventory. */
  readonly digest: string;
}

/**
 * SHA-256 over lines of canonical JSON: domain, workflow and version first, then position and digest of each member in the
 * order of the positions, and their number at the end.
 */
export class BatchDigest {
  readonly #hash = createHash('sha256');
  #last = 0;
  #count = 0;

  constructor(workflow: string, workflowVersion: number) {
    this.#line([DOMAIN, workflow, workflowVersion]);
  }

  /** @throws Error where positions do not rise: two orders would be two digests of one batch. */
  add({ position, digest }: BatchMemberDigest): void {
    if (position <= this.#last)
      throw new Error('The members of a batch were not digested in the order of their positions.');
    this.#last = position;
    this.#count += 1;
    this.#line([position, digest]);
  }

  /** 64 lower-case hexadecimal digits; nothing can be added afterwards. */
  end(): string {
    this.#line([this.#count]);
    return this.#hash.digest('hex');
  }

  #line(values: readonly (string | number)[]): void {
    this.#hash.update(`${canonicalJson(values)}\n`);
  }
}
