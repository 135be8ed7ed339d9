/**
 * One slice of an erase: goes through the units from where each subject stands, until the rows of the slice are used up.
 * What concerns one subject is found and answered for that one; the others go on.
 */
import type { JsonValue } from '../../storage/json.js';
import { TargetBlockedError, type TargetError, TargetFailedError, TargetUnavailableError } from '../target-error.js';
import type { Answers, EraseOptions, EraseProgress, EraseSubject, SubjectBatch, SubjectRef } from '../target.js';
import type { BoundPlace } from '../tables/bound-place.js';
import type { Connections } from './connection.js';
import { eraseUnit, type Refusal, SubjectsRefused, type UnitProgress } from './erase-unit.js';
import { asTargetError, type KnownNames, lostARace, mayBeOneSubjects, type ServerRefusal } from './faults.js';
import { findObstacles } from './obstacles.js';
import type { Plan, Unit } from '../tables/plan.js';
import { Subjects } from '../tables/subjects.js';

/** What an erase needs besides the subjects. */
export interface EraseContext {
  readonly target: string;
  readonly connections: Connections;
  readonly plan: Plan;
  readonly names: KnownNames;
}

/** How often a transaction that lost against another one, or found its rows taken, is run again within a slice. */
const RACES = 3;
/** How often a subject starts over because rows came back that its finished units had cleaned. */
const RESTARTS = 3;
/** How many transactions of a slice may fail while the subjects at fault are told from the others: about twenty subjects. */
const FAILED_TRANSACTIONS = 256;

/** Erases at most `limit` rows. Every ref of the batch is answered. */
export async function eraseSlice(
  context: EraseContext,
  batch: SubjectBatch<EraseSubject>,
  options: EraseOptions,
): Promise<Answers<EraseProgress>> {
  return new Slice(context, batch, options).run();
}

/** Where a subject stands. */
interface Position {
  unit: number;
  restarts: number;
  /** Nothing more of it in this slice. */
  parked: boolean;
}

class Slice {
  readonly #context: EraseContext;
  readonly #batch: SubjectBatch<EraseSubject>;
  readonly #signal: AbortSignal;
  readonly #positions: Map<SubjectRef, Position>;
  readonly #failures = new Map<SubjectRef, TargetError>();
  readonly #reported = new Map<SubjectRef, Map<string, number>>();
  readonly #limit: number;
  #room: number;
  #failedTransactions = 0;
  #progressed = false;

  constructor(context: EraseContext, batch: SubjectBatch<EraseSubject>, { limit, signal }: EraseOptions) {
    this.#context = context;
    this.#batch = batch;
    this.#signal = signal;
    this.#limit = limit;
    this.#room = limit;
    this.#positions = new Map([...batch].map(([ref, { cursor }]) => [ref, positionOf(cursor, context.plan.units)]));
  }

  async run(): Promise<Answers<EraseProgress>> {
    try {
      await this.#refuseObstructed();
      await this.#eraseUnits();
    } catch (fault) {
      const error = asTargetError(fault, this.#context.target, this.#context.names);
      // What is committed is answered first; a fault that lasts shows at the next call.
      if (!this.#progressed || !(error instanceof TargetUnavailableError)) throw error;
    }
    return this.#answers();
  }

  /** Subjects at their beginning whose rows others' rows hang on: nothing of them is erased (contract WF-10). */
  async #refuseObstructed(): Promise<void> {
    const beginning = new Set(
      [...this.#batch].filter(([, { cursor }]) => nextPlace(cursor) === null).map(([ref]) => ref),
    );
    if (beginning.size === 0) return;
    const { connections, plan, target } = this.#context;
    const all = new Subjects(this.#batch);
    const found = await findObstacles(connections, plan, all, this.#signal);
    for (const [ref, obstacle] of found) {
      if (!beginning.has(ref)) continue;
      const { place, constraint, rows, table, effect } = obstacle;
      this.#failures.set(
        ref,
        new TargetBlockedError(
          `Target "${target}", place "${place}": ${rows} rows of "${table}" that are not in the inventory reference rows of this subject (${constraint}, ${effect}); nothing was erased: declare them with a rule of their own, or remove the references.`,
          { target, place, constraint },
        ),
      );
    }
  }

  async #eraseUnits(): Promise<void> {
    const { units } = this.#context.plan;
    for (const [index, unit] of units.entries()) {
      const active = this.#active(index);
      if (active.size === 0) continue;
      if (!this.#hasRoom || !(await this.#drain(unit, index))) return;
      for (const ref of this.#active(index).refs) this.#positions.get(ref)!.unit = index + 1;
    }
  }

  #active(unit: number): Subjects {
    const all = new Subjects(this.#batch);
    return all.only((ref) => {
      const position = this.#positions.get(ref)!;
      return position.unit <= unit && !position.parked && !this.#failures.has(ref);
    });
  }

  /** What little is left of a slice is not worth a transaction. */
  get #hasRoom(): boolean {
    return this.#isFirst || this.#room > this.#limit / 8;
  }

  get #isFirst(): boolean {
    return this.#room === this.#limit;
  }

  /** Answers whether nothing of the unit is left for the subjects that stand at it. */
  async #drain(unit: Unit, index: number): Promise<boolean> {
    for (let idle = 0; this.#hasRoom && idle < RACES;) {
      const subjects = this.#active(index);
      if (subjects.size === 0) return true;
      const { rows, drained } = await this.#isolated(unit, subjects);
      if (drained) return true;
      idle = rows === 0 && this.#active(index).size === subjects.size ? idle + 1 : 0;
    }
    return false;
  }

  /** Runs one transaction for as many of the subjects as can be together. */
  async #isolated(unit: Unit, subjects: Subjects, whole = false): Promise<{ rows: number; drained: boolean }> {
    if (subjects.size === 0 || this.#room <= 0) return { rows: 0, drained: subjects.size === 0 };
    try {
      const progress = await this.#transaction(unit, subjects, whole);
      this.#add(progress);
      return progress;
    } catch (fault) {
      if (fault instanceof SubjectsRefused) {
        for (const [ref, refusal] of fault.refusals) this.#refuse(ref, unit, refusal);
        return this.#isolated(
          unit,
          subjects.only((ref) => !fault.refusals.has(ref)),
        );
      }
      if (!mayBeOneSubjects(fault)) throw fault;
      // A part of a circle of rows that goes over several subjects.
      if (unit.cyclic && !whole && fault.sqlstate === '23503') {
        return this.#isFirst ? await this.#isolated(unit, subjects, true) : { rows: 0, drained: false };
      }
      return this.#bisect(unit, subjects, fault);
    }
  }

  async #bisect(unit: Unit, subjects: Subjects, fault: ServerRefusal): Promise<{ rows: number; drained: boolean }> {
    this.#failedTransactions += 1;
    if (subjects.size === 1) {
      this.#fail(subjects.refs[0]!, unit, fault);
      return { rows: 0, drained: true };
    }
    if (this.#failedTransactions >= FAILED_TRANSACTIONS) {
      for (const ref of subjects.refs) this.#postpone(ref, fault);
      return { rows: 0, drained: true };
    }
    const [first, second] = subjects.halves();
    const one = await this.#isolated(unit, first);
    const two = await this.#isolated(unit, second);
    return { rows: one.rows + two.rows, drained: one.drained && two.drained };
  }

  async #transaction(unit: Unit, subjects: Subjects, whole: boolean): Promise<UnitProgress> {
    const { connections, plan } = this.#context;
    for (let race = 1; ; race += 1) {
      try {
        return await connections.transaction('erase', this.#signal, (query) =>
          eraseUnit(query, plan.catalogue, unit, subjects, { limit: this.#room, whole, first: this.#isFirst }),
        );
      } catch (fault) {
        if (!lostARace(fault) || race === RACES) throw fault;
      }
    }
  }

  #add({ done, rows }: UnitProgress): void {
    this.#room -= rows;
    this.#progressed ||= rows > 0;
    for (const [{ place }, counts] of done) {
      for (const [ref, count] of counts) {
        const places = this.#reported.get(ref) ?? new Map<string, number>();
        places.set(place, (places.get(place) ?? 0) + count);
        this.#reported.set(ref, places);
      }
    }
  }

  #refuse(ref: SubjectRef, unit: Unit, { why, place, rows, constraint }: Refusal): void {
    const { target } = this.#context;
    if (why === 'referenced') {
      this.#restart(
        ref,
        unit,
        () =>
          new TargetFailedError(
            `Target "${target}", place "${place}": ${rows} rows that are not in the inventory have come to reference rows of this subject (${constraint ?? ''}).`,
            { target, place, ...(constraint === undefined ? {} : { constraint }) },
          ),
      );
      return;
    }
    this.#failures.set(
      ref,
      new TargetFailedError(
        `Target "${target}", place "${place}": ${rows} rows are left though the server reported success, so that nothing above them was erased; look for a trigger or rule on the table that suppresses the change.`,
        { target, place },
      ),
    );
  }

  #fail(ref: SubjectRef, unit: Unit, fault: ServerRefusal): void {
    const error = (): TargetError => asTargetError(fault, this.#context.target, this.#context.names) as TargetError;
    if (fault.sqlstate === '23503') this.#restart(ref, unit, error);
    else this.#failures.set(ref, error());
  }

  /** Rows that reference the subject's came after their own unit was finished: it starts over, and looks for obstacles again. */
  #restart(ref: SubjectRef, unit: Unit, error: () => TargetError): void {
    const position = this.#positions.get(ref)!;
    if (position.restarts >= RESTARTS || unit === this.#context.plan.units[0]) {
      this.#failures.set(ref, error());
      return;
    }
    position.unit = 0;
    position.restarts += 1;
    position.parked = true;
  }

  #postpone(ref: SubjectRef, fault: ServerRefusal): void {
    const { target } = this.#context;
    this.#failures.set(
      ref,
      new TargetUnavailableError(
        `Target "${target}": too many subjects of one batch were refused (SQLSTATE ${fault.sqlstate}) to tell them apart at once; this one is tried again by itself.`,
        { target, cause: fault.sqlstate },
      ),
    );
  }

  #answers(): Answers<EraseProgress> {
    return new Map(
      [...this.#positions].map(([ref, position]) => [ref, this.#failures.get(ref) ?? this.#progressOf(ref, position)]),
    );
  }

  #progressOf(ref: SubjectRef, { unit, restarts, parked }: Position): EraseProgress {
    const { units } = this.#context.plan;
    const done = !parked && unit >= units.length;
    const reported = [...(this.#reported.get(ref) ?? [])].map(([place, rows]) => ({ place, rows }));
    // At its end a subject's cursor leads back to the beginning: what came back meanwhile has to be found.
    if (done) return { cursor: null, done, reported };
    const next = parked ? null : nameOf(units[unit]!);
    return { cursor: { next, restarts }, done, reported };
  }
}

/** A unit by its first place: it stays right where units were added or removed between two slices. */
function nameOf({ core }: Unit): string {
  return (core[0] as BoundPlace).place;
}

function positionOf(cursor: JsonValue, units: readonly Unit[]): Position {
  const next = nextPlace(cursor);
  const index = units.findIndex((unit) => nameOf(unit) === next);
  const restarts = typeof cursor === 'object' && cursor !== null && 'restarts' in cursor ? cursor.restarts : 0;
  return { unit: Math.max(index, 0), restarts: typeof restarts === 'number' ? restarts : 0, parked: false };
}

/** The place at which a cursor goes on; null at the beginning. */
function nextPlace(cursor: JsonValue): string | null {
  if (typeof cursor !== 'object' || cursor === null || !('next' in cursor)) return null;
  return typeof cursor.next === 'string' ? cursor.next : null;
}
