/** What a policy may decide, in the words of the record. */
import type { JsonObject } from '../storage/json.js';

/** Where a request waits when nothing but unfinished targets is left. */
export interface Wait {
  readonly status: 'waiting' | 'retry_wait' | 'blocked';
  /** Null when blocked. */
  readonly until: Date | null;
  readonly why: string;
}

export type Decision =
  /** The current stage is unfinished: run it. */
  | { readonly kind: 'resume' }
  /** The current stage is finished, or there is none: go to this one. */
  | {
      readonly kind: 'enter';
      readonly stage: string;
      readonly place: string | null;
      readonly inputs: JsonObject;
      /** Saved on the stage that is left: what was decided, for whoever reads the history. */
      readonly transition: JsonObject;
      readonly wait?: Wait;
    }
  /** Nothing is left to do. */
  | { readonly kind: 'end'; readonly status: 'completed' | 'cancelled'; readonly transition: JsonObject };
