/** One slice of an erase: transaction after transaction, each on rows of one place, until the rows of the slice are used up. */
import { relationName } from '../../../schema/catalogue.js';
import type { JsonValue } from '../../../storage/json.js';
import { TargetBlockedError, type TargetError, TargetFailedError } from '../../target-error.js';
import type { Answers, EraseOptions, EraseProgress, EraseSubject, SubjectBatch, SubjectRef } from '../../target.js';
import type { BoundPlace } from '../bound-place.js';
import type { Plan, Unit } from '../plan.js';
import { Subjects } from '../subjects.js';
import { type FoundRow, Statements } from './statements.js';
import { type Session, type Store, StoreFault } from './store.js';

/** Rows of one transaction: others wait for the store no longer than it takes. */
const TRANSACTION = 1_000;
/** How often a subject starts over because rows came back that its finished units had cleaned. */
const RESTARTS = 3;

interface Position {
  unit: number;
  restarts: number;
  /** Starts over in the next slice. */
  parked: boolean;
}

/** Subjects that cannot go on, found by looking. The transaction is rolled back. */
class SubjectsRefused extends Error {
  readonly refusals: ReadonlyMap<SubjectRef, TargetError>;
  constructor(refusals: ReadonlyMap<SubjectRef, TargetError>) {
    super('refused');
    this.refusals = refusals;
  }
}

/** Erases at most `limit` rows. Every ref of the batch is answered. */
export async function eraseSlice(
  target: string,
  store: Store,
  plan: Plan,
  batch: SubjectBatch<EraseSubject>,
  options: EraseOptions,
): Promise<Answers<EraseProgress>> {
  return new Slice(target, store, plan, batch, options).run();
}

class Slice {
  readonly #target: string;
  readonly #store: Store;
  readonly #plan: Plan;
  readonly #all: Subjects;
  readonly #signal: AbortSignal;
  readonly #positions: Map<SubjectRef, Position>;
  readonly #failures = new Map<SubjectRef, TargetError>();
  readonly #reported = new Map<SubjectRef, Map<string, number>>();
  #room: number;

  constructor(
    target: string,
    store: Store,
    plan: Plan,
    batch: SubjectBatch<EraseSubject>,
    { limit, signal }: EraseOptions,
  ) {
    this.#target = target;
    this.#store = store;
    this.#plan = plan;
    this.#all = new Subjects(batch);
    this.#signal = signal;
    this.#room = limit;
    this.#positions = new Map([...batch].map(([ref, { cursor }]) => [ref, positionOf(cursor, plan.units)]));
  }

  async run(): Promise<Answers<EraseProgress>> {
    try {
      await this.#eraseUnits();
    } catch (fault) {
      // What is committed is answered first; a fault that lasts shows at the next call.
      const lasting = !(fault instanceof StoreFault) || fault.kind !== 'unavailable';
      if (lasting || this.#reported.size === 0) throw fault;
    }
    return new Map([...this.#positions].map(([ref, at]) => [ref, this.#failures.get(ref) ?? this.#progress(ref, at)]));
  }

  async #eraseUnits(): Promise<void> {
    for (const [index, unit] of this.#plan.units.entries()) {
      for (let acted = 1; acted > 0;) {
        const active = this.#active(index);
        if (active.size === 0) break;
        if (this.#room <= 0) return;
        acted = await this.#step(unit, active);
      }
      for (const ref of this.#active(index).refs) this.#positions.get(ref)!.unit = index + 1;
    }
  }

  #active(unit: number): Subjects {
    return this.#all.only((ref) => {
      const position = this.#positions.get(ref)!;
      return position.unit <= unit && !position.parked && !this.#failures.has(ref);
    });
  }

  /** One transaction, for as many of the subjects as can be together. Answers how many rows it was about. */
  async #step(unit: Unit, subjects: Subjects): Promise<number> {
    if (subjects.size === 0 || this.#room <= 0) return 0;
    try {
      const done = await this.#store.write(this.#signal, (session) => this.#act(session, unit, subjects));
      if (done !== null) this.#add(done.place, done.rows);
      return done?.rows.length ?? 0;
    } catch (fault) {
      if (fault instanceof SubjectsRefused) {
        for (const [ref, error] of fault.refusals) this.#refuse(ref, error);
        return this.#step(
          unit,
          subjects.only((ref) => !fault.refusals.has(ref)),
        );
      }
      if (!(fault instanceof StoreFault) || fault.kind !== 'subject') throw fault;
      if (subjects.size === 1) {
        this.#refuse(subjects.refs[0]!, this.#refusedByStore(unit, fault));
        return 0;
      }
      const [first, second] = subjects.halves();
      return (await this.#step(unit, first)) + (await this.#step(unit, second));
    }
  }

  /** Acts on rows of the first place that has any: what is reached through others' rows goes before them (contract WF-16). */
  async #act(
    session: Session,
    unit: Unit,
    subjects: Subjects,
  ): Promise<{ readonly place: BoundPlace; readonly rows: readonly FoundRow[] } | null> {
    const statements = new Statements(session, this.#store.forms);
    for (const place of [...unit.attached, ...unit.core]) {
      const rows = await statements.find(place, subjects, Math.min(this.#room, TRANSACTION));
      if (rows.length === 0) continue;
      const names = rows.map(({ row }) => row);
      await this.#refuseReferenced(statements, place, rows);
      await this.#store.around(session, place, names, () => statements.act(place, names));
      const left = await statements.left(place, names);
      if (left.size > 0) throw this.#refusedRows(rows, left, () => this.#stillThere(place, left.size));
      return { place, rows };
    }
    return null;
  }

  /** The subject's own rows are gone by now, so that whatever references these is somebody else's. */
  async #refuseReferenced(statements: Statements, place: BoundPlace, rows: readonly FoundRow[]): Promise<void> {
    const exposures = this.#plan.units.flatMap(({ exposed }) => exposed).filter(({ struck }) => struck === place);
    for (const exposure of exposures) {
      const child = this.#plan.catalogue.relations.get(exposure.key.child)!;
      const found = await statements.referenced(
        exposure,
        this.#store.forms.table(child),
        rows.map(({ row }) => row),
      );
      if (found.size === 0) continue;
      throw this.#refusedRows(
        rows,
        found,
        () =>
          new TargetBlockedError(
            `Target "${this.#target}", place "${place.place}": rows of "${relationName(child)}" that are not in the inventory reference rows of this subject (${exposure.key.name}); declare them with a rule of their own, or remove the references.`,
            { target: this.#target, place: place.place, constraint: exposure.key.name },
          ),
      );
    }
  }

  #refusedRows(rows: readonly FoundRow[], found: ReadonlySet<string>, error: () => TargetError): SubjectsRefused {
    return new SubjectsRefused(
      new Map(rows.filter(({ row }) => found.has(row)).map(({ ref }) => [ref, error()] as const)),
    );
  }

  #stillThere({ place }: BoundPlace, rows: number): TargetError {
    return new TargetFailedError(
      `Target "${this.#target}", place "${place}": ${rows} rows are left though the store reported success, so that nothing above them was erased; look for a trigger on the table that suppresses the change.`,
      { target: this.#target, place },
    );
  }

  #refusedByStore({ core }: Unit, { reason }: StoreFault): TargetError {
    const { place } = core[0]!;
    return new TargetBlockedError(
      `Target "${this.#target}", at "${place}": the store refused rows of one subject (${reason}); look for a constraint or trigger that stands against the rule.`,
      { target: this.#target, place, cause: reason },
    );
  }

  /** Rows may have come after their own unit was finished: the subject starts over before it fails. */
  #refuse(ref: SubjectRef, error: TargetError): void {
    const position = this.#positions.get(ref)!;
    if (position.unit > 0 && position.restarts < RESTARTS) {
      position.parked = true;
      position.restarts += 1;
    } else this.#failures.set(ref, error);
  }

  #add({ place }: BoundPlace, rows: readonly FoundRow[]): void {
    this.#room -= rows.length;
    for (const { ref } of rows) {
      const places = this.#reported.get(ref) ?? new Map<string, number>();
      places.set(place, (places.get(place) ?? 0) + 1);
      this.#reported.set(ref, places);
    }
  }

  #progress(ref: SubjectRef, { unit, restarts, parked }: Position): EraseProgress {
    const { units } = this.#plan;
    const done = !parked && unit >= units.length;
    const reported = [...(this.#reported.get(ref) ?? [])].map(([place, rows]) => ({ place, rows }));
    // At its end a subject's cursor leads back to the beginning: what came back meanwhile has to be found.
    if (done) return { cursor: null, done, reported };
    return { cursor: { next: parked ? null : units[unit]!.core[0]!.place, restarts }, done, reported };
  }
}

/** A unit by its first place: it stays right where units were added or removed between two slices. */
function positionOf(cursor: JsonValue, units: readonly Unit[]): Position {
  const { next, restarts } = (cursor ?? {}) as { readonly next?: unknown; readonly restarts?: unknown };
  const index = units.findIndex(({ core }) => core[0]!.place === next);
  return { unit: Math.max(index, 0), restarts: typeof restarts === 'number' ? restarts : 0, parked: false };
}
