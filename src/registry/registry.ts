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

/** Every method but the reads throws where the store does not answer; none is ever half done for one deletion. */
export interface Registry {
  /** One strongly consistent point read (REG-3). Never throws: a failure is UNKNOWN, logged and counted (REG-4). */
  getDeletionStatus(reference: string): Promise<StatusAnswer>;
  /** Generations for new marks: above every one that the subjects have had, and never below the clock (REG-10). */
  proposeGenerations(requests: ReadonlyMap<string, readonly string[]>): Promise<ReadonlyMap<string, number>>;
  /** Writes tombstones, in progress. Idempotent per generation; the first `deleted_at` is kept. */
  mark(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>>;
  /** Where marks stand now; read again before anything is destroyed. */
  check(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>>;
  /** Every erase is verified: the subject may be created again. */
  markErased(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>>;
  /** Something came back and is being erased: no re-creation meanwhile. */
  reopen(marks: readonly Mark[]): Promise<ReadonlyMap<string, MarkResult>>;
  /** The end: from now on the row expires, and it no longer names the request (REG-6, REG-13). */
  complete(marks: readonly Mark[], keepSeconds: number): Promise<ReadonlyMap<string, MarkResult>>;
  /**
   * After a cancel: live again, under a new generation, and references given out before are good again (REG-9).
   * @param liveGenerations - by request id, saved before.
   */
  ungate(
    marks: readonly Mark[],
    liveGenerations: ReadonlyMap<string, number>,
    keepSeconds: number,
  ): Promise<ReadonlyMap<string, MarkResult>>;
}

/** 30 days, in seconds: how long a tombstone outlives the deletion unless more is declared (REG-6). */
export const DELETION_TOMBSTONE_TTL = 30 * 24 * 60 * 60;
