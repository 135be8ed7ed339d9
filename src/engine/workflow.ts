/** What a workflow gives the engine. The engine knows no stage by name, and no target. */
import type { Queries } from '../storage/database.js';
import type { JsonObject, JsonValue } from '../storage/json.js';
import type { Decision } from '../requests/decision.js';
import type { RequestIdentity, RequestRow, StageRow } from '../requests/request.js';
import type { Ending } from '../requests/move.js';
import type { Preparation } from '../requests/save-preparations.js';
import type { StageRecord } from './history.js';

/**
 * What a handler says of its stage. Waiting is not failing: what is unreachable, throttled or locked is postponed, and not
 * counted against the request.
 */
export type Outcome =
  | { readonly kind: 'completed'; readonly result: JsonObject }
  | { readonly kind: 'postponed'; readonly why: string; readonly delaySeconds: number }
  | { readonly kind: 'failed'; readonly error: string; readonly retryable: boolean }
  /** What was approved is no longer what is there: the new revision is saved, and waits for approval. */
  | {
      readonly kind: 'revised';
      readonly why: string;
      readonly inventory: JsonObject;
      readonly inventoryDigest: string;
    };

/** One stage to be run, with everything that was saved about it. */
export interface StageRun {
  readonly request: RequestRow;
  /** The whole row (EX-5); its `metadata_json.inputs` are what the policy decided. */
  readonly stage: StageRow;
  /** The current revision of the inventory. */
  readonly inventory: JsonObject;
  /** Every stage before this one, in order. */
  readonly history: readonly StageRecord[];
}

/** SQL of a handler that commits with what the engine saves, for the requests whose save was accepted. */
export type Commit = (tx: Queries, saved: ReadonlySet<string>) => Promise<void>;

export interface StageProgress {
  readonly intent?: JsonValue;
  readonly cursor?: JsonValue;
}

export interface HandlerContext {
  /** Ends when the process is to stop, or when every lease of this batch is lost. */
  readonly signal: AbortSignal;
  /** Whether the lease still holds by this worker's own monotonic clock; to be asked before every effect (EX-14). */
  owns(requestId: string): boolean;
  /**
   * Saves intents and cursors, by request id. Returns the ids that were saved; the others are lost or under an order: their
   * stages have to stop, and whatever is answered for them is ignored.
   *
   * @param commit - SQL that commits together with what was saved, for those that were.
   */
  save(progress: ReadonlyMap<string, StageProgress>, commit?: Commit): Promise<ReadonlySet<string>>;
}

export interface HandlerAnswer {
  /** By request id. A request that is missing has failed, unless its progress could not be saved. */
  readonly outcomes: ReadonlyMap<string, Outcome>;
  /** SQL that commits together with the outcomes, for those whose save was accepted (EX-6). */
  readonly commit?: Commit;
}

/**
 * Does a stage's work, for a batch of requests that stand at the same stage of the same place. It may run again after any
 * crash (EX-24). It may throw: then the batch is halved until the failing request is alone.
 */
export type Handler = (runs: readonly StageRun[], context: HandlerContext) => Promise<HandlerAnswer>;

/** Plain values; nothing that could be asked for more. */
export interface PolicyInput {
  readonly requestId: string;
  readonly target: string | null;
  /** The database's clock. */
  readonly now: Date;
  /** The current revision. */
  readonly inventory: JsonObject;
  readonly inventoryDigest: string;
  /** In the order of the chain. The last one, if there is any, is completed. */
  readonly history: readonly StageRecord[];
  readonly isCancelled: boolean;
  /** When an operator last said that what failed before no longer counts. */
  readonly unblockedAt: Date | null;
}

/** Pure and synchronous: same input, same answer, no I/O (EX-22). */
export interface Policy {
  /** @throws HistoryError where saved rows do not fit the rules; no progress is invented then (EX-11). */
  decide(input: PolicyInput): Exclude<Decision, { readonly kind: 'resume' }>;
  /**
   * What `decide` checks, for a history that may end in an unfinished stage: asked before such a stage is run again.
   * @throws HistoryError
   */
  check(input: PolicyInput): void;
  /** Whether a cancel is still possible. The history may end in an unfinished stage. */
  mayCancel(input: PolicyInput): boolean;
}

export interface Workflow {
  readonly name: string;
  readonly version: number;
  /** `operator`: only an explicit run executes it (EX-26). */
  readonly runBy: 'operator' | 'worker';
  readonly policy: Policy;
  readonly handlers: Readonly<Record<string, Handler>>;
  /** Stages that, where they have a place, visit one target each: one that cannot finish closes all the same, and the policy comes back to it. */
  readonly visits: ReadonlySet<string>;
  /**
   * Computes the digest of a stored inventory again (EX-25).
   * @throws InventoryError where the inventory is not valid; RequestRefusedError UNREGISTERED_VERSION where its version is unknown.
   */
  digest(request: RequestIdentity, inventory: JsonObject): string;
  /**
   * Whether the program that runs now would do what was approved. Asked by `run` before it claims, and by every transition.
   * @param stage - the name of the current stage; null before the first.
   * @throws RequestRefusedError PLAN_CHANGED where it would not (WF-6).
   */
  requireRunnable?(request: RequestRow, inventory: JsonObject, stage: string | null): void;
  /**
   * Counts requests that were submitted without an inventory, many at once (WF-1): revision 1 of each, what it waits for, or
   * why it is refused, by request id. It may be asked again after any crash, and saves nothing itself. It may throw: then the
   * batch is halved until the failing request is alone. Absent where every request has its inventory from the beginning.
   * @param signal - ends when the process is to stop, or when every lease of this batch is lost.
   */
  prepare?(requests: readonly RequestRow[], signal: AbortSignal): Promise<ReadonlyMap<string, Preparation>>;
  /** SQL that commits with terminal transitions. */
  end?(tx: Queries, endings: readonly Ending[]): Promise<void>;
}
