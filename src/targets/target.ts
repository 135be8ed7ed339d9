/**
 * What a data system has to offer so that Expunge can delete from it. Whoever adds a system implements `Target`, wraps
 * its configuration in a `TargetDeclaration`, and runs `describeTarget` of `expunge/testing` against it.
 */
import type { JsonObject, JsonValue } from '../storage/json.js';
import type { TargetError } from './target-error.js';

/** An opaque, random name of one subject within one call. It is never an identifier. */
export type SubjectRef = string;

/** What a target gets to find one subject by. */
export interface TargetSubject {
  /** Normalised identifiers, by their declared names. Those that the target declared as needed are always present. */
  readonly identifiers: Readonly<Record<string, string>>;
  /** Values that other targets resolved before anything of theirs was deleted, by locator name (contract WF-17). */
  readonly locators: Readonly<Record<string, readonly string[]>>;
}

/** A batch of subjects, keyed by ref. A ref that is missing from an answer is a failure of that subject. */
export type SubjectBatch<S extends TargetSubject = TargetSubject> = ReadonlyMap<SubjectRef, S>;

/** One answer per ref. A subject that fails alone has its error here; a fault of the whole call is thrown. */
export type Answers<T> = ReadonlyMap<SubjectRef, T | TargetError>;

/**
 * What is done to the copies in a place. A value that is overwritten is `anonymize` when nothing is left that leads to
 * the person, `pseudonymize` when the row still carries a key; neither is ever called deleted (contract WF-21).
 */
export type PlaceAction = 'delete' | 'anonymize' | 'pseudonymize' | 'retain';

/** One table, index, prefix or key pattern of a target. */
export interface Place {
  /** Unique within the target, printable, free of personal data: `customer`, `billing.payment`, `invoices/`. */
  readonly place: string;
  readonly action: PlaceAction;
  /** The obligation under which rows are kept; required for `retain`, null where nothing is kept. */
  readonly basis: string | null;
}

/** What an independent read finds of one subject in one place (contract WF-19). Counts only: no content, no keys. */
export interface PlaceCount {
  readonly place: string;
  /** Copies that the place's action has still to be applied to. Zero when the place is clean. */
  readonly matched: number;
  /** Copies that stay by declaration. */
  readonly retained: number;
  /** ISO 8601 date until which the last of the retained copies stays; null where nothing is retained or no end is known. */
  readonly retainedUntil: string | null;
  /** Copies that belong to a newer generation of the subject and stay untouched. */
  readonly superseded: number;
  /**
   * For a place that is reached through a parent: copies of anybody's in it whose parent does not exist. A count through a
   * deleted parent is always zero, so that this number is compared before and after (contract WF-16). Null elsewhere.
   */
  readonly parentless: number | null;
  /** A reason code where the place cannot be verified; such a place never completes a request. */
  readonly unverifiable: string | null;
}

/** A subject whose erase goes on from a saved position. */
export interface EraseSubject extends TargetSubject {
  /** The cursor of the last saved slice; null at the first. */
  readonly cursor: JsonValue;
}

/** One finished, committed slice of an erase. */
export interface EraseProgress {
  /** Where to go on; saved by the engine under the lease. Small, free of personal data, and safe to apply twice. */
  readonly cursor: JsonValue;
  /** True when the target believes that nothing is left. Only `count` decides whether that is so. */
  readonly done: boolean;
  /** What the store said it removed in this slice. Informative: receipts are made from counts (contract WF-20). */
  readonly reported: readonly { readonly place: string; readonly rows: number }[];
}

export interface EraseOptions {
  /** At most this many rows, objects or keys in one slice, over all subjects of the batch together. */
  readonly limit: number;
  readonly signal: AbortSignal;
}

/** Physical clean-up after an erase, for the receipt (contract WF-23). */
export interface Cleanup {
  readonly place: string;
  /** For example `vacuum`, `analyze`. */
  readonly did: readonly string[];
  /** Reason codes of what could not be done, or of what stays all the same: `NOT_OWNER`, `STATISTICS_OF_EMPTY_TABLE`. */
  readonly left: readonly string[];
}

/** How one target finds what another one knows: the values of `column` in `place`, for the subject. */
export interface LocatorQuery {
  readonly place: string;
  readonly column: string;
}

/** Where a locator comes from. */
export interface LocatorSource extends LocatorQuery {
  /** The name of the other target. */
  readonly target: string;
}

/**
 * One opened data system. Every method may be called again after any crash: erasing what is gone is success, and "not
 * there" is an answer only for rows, objects and keys, never for a table, index or root that the declaration names
 * (contract WF-12). Methods throw or answer with a `TargetError`; its class tells whether to wait, to try again or to give up.
 */
export interface Target {
  readonly name: string;
  /**
   * Compares the declaration with the store and lists its places, in the order in which they are erased.
   * @throws TargetDeclarationError where they do not fit; TargetUnavailableError where the store does not answer.
   */
  describe(signal: AbortSignal): Promise<readonly Place[]>;
  /** Counts per place, with every place of `describe` present, by a read that is independent of the connection that erases. */
  count(batch: SubjectBatch, signal: AbortSignal): Promise<Answers<readonly PlaceCount[]>>;
  /** Erases one bounded slice and commits it. */
  erase(batch: SubjectBatch<EraseSubject>, options: EraseOptions): Promise<Answers<EraseProgress>>;
  /** Ends sessions and tokens, before anything is erased (contract WF-13). Answers how many per place. */
  revoke?(
    batch: SubjectBatch,
    signal: AbortSignal,
  ): Promise<Answers<readonly { readonly place: string; readonly rows: number }[]>>;
  /** Resolves locators for other targets, by locator name. */
  locate?(
    batch: SubjectBatch,
    queries: Readonly<Record<string, LocatorQuery>>,
    signal: AbortSignal,
  ): Promise<Answers<Readonly<Record<string, readonly string[]>>>>;
  /** Physical clean-up of the places that an erase touched, once per batch. */
  cleanup?(places: readonly string[], signal: AbortSignal): Promise<readonly Cleanup[]>;
  close(): Promise<void>;
}

/**
 * A target as it stands in the configuration. It is data: `plan` is the whole declaration as plain JSON, without
 * credentials, and its digest is part of what is approved (contract WF-6).
 *
 * @typeParam I - the identifiers that the declaration uses; the compiler holds them against those that are declared.
 */
export interface TargetDeclaration<I extends string = string> {
  /** The folder's name: `postgres`, `files`. */
  readonly kind: string;
  /** Raised whenever the same plan would be carried out differently. */
  readonly handlerVersion: number;
  readonly plan: JsonObject;
  readonly identifiers: readonly I[];
  /** What this target needs from others, by locator name. */
  readonly locators: Readonly<Record<string, LocatorSource>>;
  /** Whether the target has sessions or tokens to revoke. */
  readonly revokes: boolean;
  /** The name in `fences` of the fence that guards this system; absent or null where none does. Checked at load. */
  readonly fence?: string | null;
  /** Opens the target under its configured name. Connects lazily: an unreachable store shows at the first call. */
  open(name: string): Target;
}
