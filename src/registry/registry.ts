/** Who is gone: the contract of every registry (registry.md, REG). */

/**
 * `DELETED`: a tombstone was found, suppress the write. `NOT_DELETED`: the store was read and holds none. `UNKNOWN`: the
 * store could not be read. Only the first is evidence; the other two proceed (REG-1, REG-2).
 */
export type DeletionStatus = 'DELETED' | 'NOT_DELETED' | 'UNKNOWN';

/** In progress, every erase verified, complete, or alive again (REG-12). */
export type TombstoneState = 'in_progress' | 'erased' | 'complete' | 'live';

export interface StatusAnswer {
  readonly status: DeletionStatus;
  /** Null where there is no row, or where the store could not be read. */
  readonly state: TombstoneState | null;
  /** The incarnation of the subject; 0 where there is no row. */
  readonly generation: number;
}

/** One deletion's tombstones: the same subject under every writing key. */
export interface Mark {
  /** Names the deletion within the call, and in the row until it is complete. */
  readonly requestId: string;
  /** Random; joins the rows. */
  readonly groupId: string;
  readonly references: readonly string[];
  /** From `proposeGenerations`, saved by the caller before it is used here (REG-10). */
  readonly generation: number;
}

/** `superseded`: the subject has a newer generation; nothing was changed (REG-11). `missing`: there is no such row. */
export type MarkResult = 'marked' | 'superseded' | 'missing';

/**
 * Every method but the reads throws where the store does not answer. The rows of one deletion change together or not at all,
 * and a change that was made already is not made twice.
 */
export interface Registry {
  /**
   * One strongly consistent point read (REG-3). Never throws: a failure is UNKNOWN, logged and counted (REG-4), and so is a
   * text that is no reference (REG-5).
   */
  getDeletionStatus(reference: string): Promise<StatusAnswer>;
  /** The same for many, in one round trip. By reference; one that could not be read is UNKNOWN. */
  getDeletionStatuses(references: readonly string[]): Promise<ReadonlyMap<string, StatusAnswer>>;
  /** Generations for new marks: above every one that the subjects have had, and never below the clock (REG-10). */
  proposeGenerations(requests: ReadonlyMap<string, readonly string[]>): Promise<ReadonlyMap<string, number>>;
  /** Writes tombstones, in progress. Idempotent per generation; the first `deleted_at` is kept. */
  mark(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>>;
  /** Where marks stand now. */
  check(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>>;
  /** Every erase is verified: the subject may be created again. */
  markErased(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>>;
  /** Something is to be erased: no re-creation meanwhile. Where marks are in progress already, nothing changes. */
  reopen(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>>;
  /** The end: from now on the row expires, and it no longer names the request (REG-6, REG-13). */
  complete(marks: readonly Mark[], keepSeconds: number): Promise<ReadonlyMap<string, MarkResult>>;
  /**
   * After a cancel: live again, under a new generation, and references given out before are good again (REG-9). A subject
   * that an earlier deletion had removed was not alive before the mark, and stays deleted.
   * @param liveGenerations - by request id, saved before.
   * @returns `superseded` where this was done before, too: the row is at the new generation then.
   */
  ungate(
    marks: readonly Mark[],
    liveGenerations: ReadonlyMap<string, number>,
    keepSeconds: number,
  ): Promise<ReadonlyMap<string, MarkResult>>;
}

/** 30 days, in seconds: how long a tombstone outlives the deletion unless more is declared (REG-6). */
export const DELETION_TOMBSTONE_TTL = 30 * 24 * 60 * 60;
