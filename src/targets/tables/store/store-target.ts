/** A store of plain tables as a target: the catalogue is read in every call, and everything else follows from it. */
import { Temporal } from 'temporal-polyfill';
import { findColumn } from '../../../schema/catalogue.js';
import {
  TargetBlockedError,
  TargetDeclarationError,
  type TargetError,
  TargetFailedError,
  TargetUnavailableError,
} from '../../target-error.js';
import type {
  Answers,
  Cleanup,
  EraseOptions,
  EraseProgress,
  EraseSubject,
  LocatorQuery,
  Place,
  PlaceCount,
  SubjectBatch,
  SubjectRef,
  Target,
} from '../../target.js';
import { bindPlaces, refuseProblems } from '../bind-places.js';
import { referenceProblems } from '../check-references.js';
import type { DeclaredPlace, Keep } from '../declaration.js';
import { makePlan, type Plan, planProblems } from '../plan.js';
import { answerUsable, Subjects } from '../subjects.js';
import { eraseSlice } from './erase.js';
import { Statements } from './statements.js';
import { refuseAborted, type Session, type Store, StoreFault } from './store.js';

/** Locators are sealed on the request; more of them than this in one call are no locators. */
const MOST_VALUES = 100_000;

export class StoreTarget implements Target {
  readonly name: string;
  readonly #store: Store;
  readonly #declared: readonly DeclaredPlace[];

  constructor(name: string, store: Store, declared: readonly DeclaredPlace[]) {
    this.name = name;
    this.#store = store;
    this.#declared = declared;
  }

  async describe(signal: AbortSignal): Promise<readonly Place[]> {
    return this.#reading(signal, async (_, { places }) =>
      places.map(({ place, action, keep }) => ({ place, action, basis: keep?.basis ?? null })),
    );
  }

  async count(batch: SubjectBatch, signal: AbortSignal): Promise<Answers<readonly PlaceCount[]>> {
    return this.#reading(signal, (statements, plan) =>
      answerUsable(this.name, plan.places, batch, (usable) => this.#count(statements, plan, new Subjects(usable))),
    );
  }

  async #count(statements: Statements, plan: Plan, subjects: Subjects): Promise<Answers<readonly PlaceCount[]>> {
    const counts = new Map<SubjectRef, PlaceCount[]>(subjects.refs.map((ref) => [ref, []]));
    for (const place of plan.places) {
      const parentless = await statements.parentless(place);
      const rows = await statements.count(place, subjects);
      for (const [index, ref] of subjects.refs.entries()) {
        const row = rows.get(index + 1);
        counts.get(ref)!.push({
          place: place.place,
          matched: row?.matched ?? 0,
          retained: place.keep ? (row?.kept ?? 0) : 0,
          retainedUntil: place.keep && row && row.kept > 0 ? endOf(place.keep, row.since) : null,
          superseded: 0,
          parentless,
          unverifiable: null,
        });
      }
    }
    return counts;
  }

  async erase(batch: SubjectBatch<EraseSubject>, options: EraseOptions): Promise<Answers<EraseProgress>> {
    return this.#guarded(options.signal, async () => {
      const plan = await this.#store.read(options.signal, (session) => this.#plan(session));
      return answerUsable(this.name, plan.places, batch, (usable) =>
        eraseSlice(this.name, this.#store, plan, usable, options),
      );
    });
  }

  async locate(
    batch: SubjectBatch,
    queries: Readonly<Record<string, LocatorQuery>>,
    signal: AbortSignal,
  ): Promise<Answers<Readonly<Record<string, readonly string[]>>>> {
    return this.#reading(signal, (statements, plan) =>
      answerUsable(this.name, plan.places, batch, async (usable) => {
        const subjects = new Subjects(usable);
        const found = new Map<SubjectRef, Record<string, string[]>>(subjects.refs.map((ref) => [ref, {}]));
        for (const [name, asked] of Object.entries(queries)) {
          for (const values of found.values()) values[name] = [];
          for (const { ref, value } of await this.#locate(statements, plan, subjects, asked)) {
            found.get(ref)![name]!.push(value);
          }
        }
        return found;
      }),
    );
  }

  async #locate(
    statements: Statements,
    plan: Plan,
    subjects: Subjects,
    asked: LocatorQuery,
  ): ReturnType<Statements['values']> {
    const place = plan.places.find((one) => one.place === asked.place);
    if (!place || !findColumn(plan.catalogue, place.relation, asked.column)) {
      throw new TargetDeclarationError(
        `Target "${this.name}" is asked for "${asked.column}" of "${asked.place}", which is no column of a declared place; correct the locator.`,
        { target: this.name, place: asked.place },
      );
    }
    const values = await statements.values(place, asked.column, subjects, MOST_VALUES + 1);
    if (values.length <= MOST_VALUES) return values;
    throw new TargetBlockedError(
      `Target "${this.name}", place "${asked.place}": the subjects have more than ${MOST_VALUES} different values in "${asked.column}"; choose a column with fewer to locate by.`,
      { target: this.name, place: asked.place },
    );
  }

  async cleanup(places: readonly string[], signal: AbortSignal): Promise<readonly Cleanup[]> {
    return this.#guarded(signal, async () => {
      const plan = await this.#store.read(signal, (session) => this.#plan(session));
      const touched = plan.places.filter(({ place }) => places.includes(place));
      return touched.length === 0 ? [] : this.#store.cleanup(touched, signal);
    });
  }

  async close(): Promise<void> {
    await this.#store.close();
  }

  async #reading<T>(signal: AbortSignal, work: (statements: Statements, plan: Plan) => Promise<T>): Promise<T> {
    return this.#guarded(signal, () =>
      this.#store.read(signal, async (session) =>
        work(new Statements(session, this.#store.forms), await this.#plan(session)),
      ),
    );
  }

  /** @throws TargetDeclarationError where the declaration does not fit the catalogue. */
  async #plan(session: Session): Promise<Plan> {
    const catalogue = await this.#store.readCatalogue(session);
    refuseProblems(this.name, this.#store.declaredProblems(this.#declared, catalogue));
    const { places, problems } = bindPlaces(this.#declared, catalogue, this.#store.columns);
    refuseProblems(this.name, problems);
    refuseProblems(this.name, referenceProblems(places, catalogue));
    const plan = makePlan(places, catalogue);
    refuseProblems(this.name, planProblems(plan));
    refuseProblems(
      this.name,
      plan.units
        .filter(({ cyclic }) => cyclic)
        .map(({ core }) => ({
          place: core[0]!.place,
          text: `has rows that reference each other in a circle (${core.map(({ place }) => `"${place}"`).join(', ')}), which this target cannot erase in slices; drop the foreign key that closes the circle`,
        })),
    );
    return plan;
  }

  /** Ends as soon as the signal is aborted, and turns every fault into one that holds nothing of the data. */
  async #guarded<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    try {
      refuseAborted(signal);
      return await orAborted(signal, work());
    } catch (fault) {
      throw fault instanceof StoreFault ? this.#errorOf(fault) : fault;
    }
  }

  #errorOf({ kind, reason }: StoreFault): TargetError {
    const detail = { target: this.name, cause: reason };
    switch (kind) {
      case 'unavailable':
        return new TargetUnavailableError(
          `Target "${this.name}" cannot be used now (${reason}); it is tried again by itself.`,
          detail,
        );
      case 'declaration':
        return new TargetDeclarationError(
          `Target "${this.name}": the store does not fit the declaration (${reason}); compare tables and columns with it.`,
          detail,
        );
      case 'failed':
      case 'subject':
        return new TargetFailedError(
          `Target "${this.name}": the store refused (${reason}); it is tried again by itself, and blocked when that does not help.`,
          detail,
        );
    }
  }
}

/** What still runs sees the signal too, and commits nothing. */
async function orAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let abort = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => {
      reject(new StoreFault('unavailable', 'ABORTED'));
    };
    signal.addEventListener('abort', abort, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
    work.catch(() => undefined);
  }
}

/** The day on which the time is over; null where the beginning is no date. */
function endOf(keep: Keep, since: string | null): string | null {
  const day = /^\d{4}-\d\d-\d\d/.exec(since ?? '')?.[0];
  if (day === undefined) return null;
  try {
    return Temporal.PlainDate.from(day).add(keep.for).toString();
  } catch {
    return null;
  }
}
