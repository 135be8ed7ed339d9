/**
 * What the author of a target supplies so that the kit can test it: a store that is really there, a way to write copies
 * into it and to look at them without the target, and real faults.
 */
import type { LocatorQuery, Target, TargetSubject } from '../targets/target.js';

/**
 * - `down`: the store does not answer at all.
 * - `slow`: the store accepts calls and does not answer them until the fault is undone.
 * - `half`: about half of the calls to the store fail, whichever they are.
 * - `silent`: deletes report success and remove nothing, as a trigger that returns NULL does.
 * - `missing`: a place that the declaration names is gone (its table, its index, its directory).
 */
export type FaultKind = 'down' | 'slow' | 'half' | 'silent' | 'missing';

/** Undoes a fault: the store is as it was before. */
export type Undo = () => Promise<void>;

/** How many copies of a subject a place got. */
export interface PlantedPlace {
  /** A name that `describe` lists. */
  readonly place: string;
  /** Zero where the store cannot hold anything under this subject's values. */
  readonly copies: number;
}

/** What a target with `revoke` supplies besides: sessions, tokens, or whatever gives access. */
export interface AccessHarness {
  /** Gives the subject `sessions` valid sessions. */
  plant(subject: TargetSubject, sessions: number): Promise<void>;
  /** How many valid sessions the subject has, by the store's own account and not through the target. */
  count(subject: TargetSubject): Promise<number>;
}

/** What a target with `locate` supplies besides. */
export interface LocateHarness {
  /** The queries to ask, by locator name. */
  readonly queries: Readonly<Record<string, LocatorQuery>>;
  /** Writes `count` copies for the subject that carry locators, and answers the values by locator name. */
  plant(subject: TargetSubject, count: number): Promise<Readonly<Record<string, readonly string[]>>>;
}

/** One store with nothing of any subject in it, and the target opened on it. */
export interface TargetHarness {
  /** Opened on the store. The kit closes it. */
  readonly target: Target;
  /**
   * Opens the same store once more, as a process does that was started after a crash: nothing in memory is shared with
   * the first target object, which may still be in use unless the target is `exclusive`. The kit closes it.
   */
  reopen(): Promise<Target>;
  /**
   * Writes `copies` copies of the subject into each place that can be erased, besides those that are there, and answers
   * how many each place got. Where a place holds at most one copy per value (a file named by an identifier), it gets as
   * many as it can hold. Places that keep everything they have (`retain`) get none.
   *
   * @param secret - a text that the planted content has to contain, so that the kit can see it leak.
   */
  plant(subject: TargetSubject, copies: number, secret: string): Promise<readonly PlantedPlace[]>;
  /**
   * A checksum of everything that the store holds of this subject, content included, read without the target. Two
   * readings are equal when nothing of the subject changed in between. It compares whole values, byte by byte.
   */
  fingerprint(subject: TargetSubject): Promise<string>;
  /** Makes the store fail until undone. Called only for the kinds in `faults`. */
  fault(kind: FaultKind): Promise<Undo>;
  readonly access?: AccessHarness;
  readonly locate?: LocateHarness;
  /** Removes the store. Called once, after the targets were closed, also when a check failed. */
  close(): Promise<void>;
}

/** What `describeTarget` and `runChecks` need to know of a target. */
export interface ConformanceOptions {
  /** Makes an empty store and opens the target on it; called once for each check. */
  open(): Promise<TargetHarness>;
  /** The identifiers that the declaration uses. */
  readonly identifiers: readonly string[];
  /** Identifiers that form one key together (`['tenantId', 'customerId']`) and are no key alone, where there are such. */
  readonly composite?: readonly string[];
  /** The locators that the declaration needs. */
  readonly locators?: readonly string[];
  /**
   * The faults that the harness can make; by default `down`, `slow` and `half`. The checks of the others are reported
   * as left out, by name.
   */
  readonly faults?: readonly FaultKind[];
  /** True for a store that a second target object cannot open while the first is open. */
  readonly exclusive?: boolean;
}
