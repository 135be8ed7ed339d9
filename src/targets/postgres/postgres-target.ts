/** A PostgreSQL database as a target: the catalogue is read when it is needed, and everything else follows from it. */
import type { Catalogue } from '../../schema/catalogue.js';
import { readCatalogue } from '../../schema/read-catalogue.js';
import { TargetDeclarationError, TargetError } from '../target-error.js';
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
} from '../target.js';
import { bindPlaces, type Problem, refuseProblems } from '../tables/bind-places.js';
import { referenceProblems } from '../tables/check-references.js';
import { cleanUp } from './cleanup.js';
import type { Connections } from './connection.js';
import { countPlaces } from './count.js';
import type { DeclaredPlace } from '../tables/declaration.js';
import { eraseSlice } from './erase.js';
import { asTargetError, type KnownNames, ServerRefusal } from './faults.js';
import { columnRules } from './key-type.js';
import { locateValues } from './locate.js';
import { makePlan, type Plan, planProblems } from '../tables/plan.js';
import { probeProblems } from './probe-values.js';
import { answerUsable, Subjects } from '../tables/subjects.js';
import { findWarnings, type PostgresWarning } from './warnings.js';

/** How long a catalogue that was read is taken to be the database's, in milliseconds. */
const CATALOGUE_MS = 10_000;
/** Rows that `revoke` deletes in one transaction. */
const REVOKE_SLICE = 10_000;

type RevokedPlaces = readonly { readonly place: string; readonly rows: number }[];

export class PostgresTarget implements Target {
  readonly name: string;
  readonly #declared: readonly DeclaredPlace[];
  readonly #connections: Connections;
  #plan: { readonly plan: Plan; readonly readAt: number } | null = null;
  /** The catalogue of the last probes that found nothing wrong. */
  #probed: string | null = null;

  constructor(name: string, connections: Connections, declared: readonly DeclaredPlace[]) {
    this.name = name;
    this.#connections = connections;
    this.#declared = declared;
  }

  async describe(signal: AbortSignal): Promise<readonly Place[]> {
    return this.#guarded(async () => {
      this.#plan = null;
      const { places } = await this.#current(signal);
      return places.map(({ place, action, keep }) => ({ place, action, basis: keep?.basis ?? null }));
    });
  }

  /** What is no reason to refuse the declaration: missing indexes, triggers that may copy rows, materialized views. */
  async warnings(signal: AbortSignal): Promise<readonly PostgresWarning[]> {
    return this.#guarded(async () => {
      const plan = await this.#current(signal);
      return this.#connections.transaction('read', signal, (query) => findWarnings(query, plan));
    });
  }

  async count(batch: SubjectBatch, signal: AbortSignal): Promise<Answers<readonly PlaceCount[]>> {
    return this.#guarded(async () => {
      const plan = await this.#current(signal);
      return answerUsable(this.name, plan.places, batch, (subjects) =>
        this.#connections.transaction('read', signal, (query) =>
          countPlaces(query, plan.places, new Subjects(subjects)),
        ),
      );
    });
  }

  async erase(batch: SubjectBatch<EraseSubject>, options: EraseOptions): Promise<Answers<EraseProgress>> {
    return this.#guarded(async () => {
      const plan = await this.#current(options.signal);
      return answerUsable(this.name, plan.places, batch, (subjects) =>
        eraseSlice(this.#context(plan), subjects, options),
      );
    });
  }

  async revoke(batch: SubjectBatch, signal: AbortSignal): Promise<Answers<RevokedPlaces>> {
    return this.#guarded(async () => {
      const plan = await this.#current(signal);
      const units = plan.units.filter(({ core }) => core.some(({ revoke }) => revoke));
      return answerUsable(this.name, plan.places, batch, (subjects) =>
        this.#revokeAll({ ...plan, units }, subjects, signal),
      );
    });
  }

  async locate(
    batch: SubjectBatch,
    queries: Readonly<Record<string, LocatorQuery>>,
    signal: AbortSignal,
  ): Promise<Answers<Readonly<Record<string, readonly string[]>>>> {
    return this.#guarded(async () => {
      const plan = await this.#current(signal);
      return answerUsable(this.name, plan.places, batch, (subjects) =>
        this.#connections.transaction('read', signal, (query) =>
          locateValues(query, this.name, plan, new Subjects(subjects), queries),
        ),
      );
    });
  }

  async cleanup(places: readonly string[], signal: AbortSignal): Promise<readonly Cleanup[]> {
    return this.#guarded(async () => {
      const plan = await this.#current(signal);
      const touched = plan.places.filter(({ place }) => places.includes(place));
      return cleanUp(this.#connections, touched, signal);
    });
  }

  async close(): Promise<void> {
    await this.#connections.close();
  }

  async #revokeAll(plan: Plan, batch: SubjectBatch, signal: AbortSignal): Promise<Answers<RevokedPlaces>> {
    const answers = new Map<SubjectRef, RevokedPlaces | TargetError>([...batch.keys()].map((ref) => [ref, []]));
    let open = new Map<SubjectRef, EraseSubject>(
      [...batch].map(([ref, subject]) => [ref, { ...subject, cursor: null }]),
    );
    while (open.size > 0) {
      const slice = await eraseSlice(this.#context(plan), open, { limit: REVOKE_SLICE, signal });
      const rest = new Map<SubjectRef, EraseSubject>();
      for (const [ref, progress] of slice) {
        if (progress instanceof TargetError) {
          answers.set(ref, progress);
          continue;
        }
        answers.set(ref, added(answers.get(ref) as RevokedPlaces, progress.reported));
        if (!progress.done) rest.set(ref, { ...open.get(ref)!, cursor: progress.cursor });
      }
      open = rest;
    }
    return answers;
  }

  #context(plan: Plan): Parameters<typeof eraseSlice>[0] {
    return { target: this.name, connections: this.#connections, plan, names: namesOf(plan) };
  }

  /** @throws TargetDeclarationError where the declaration does not fit the catalogue. */
  async #current(signal: AbortSignal): Promise<Plan> {
    if (this.#plan && performance.now() - this.#plan.readAt < CATALOGUE_MS) return this.#plan.plan;
    const readAt = performance.now();
    const catalogue = await this.#connections.transaction('read', signal, (query) =>
      readCatalogue((text, parameters) => query(text, parameters), this.#declared),
    );
    refuseProblems(this.name, serverProblems(catalogue.server));
    const { places, problems } = bindPlaces(this.#declared, catalogue, columnRules);
    refuseProblems(this.name, problems);
    refuseProblems(this.name, referenceProblems(places, catalogue));
    const plan = makePlan(places, catalogue);
    refuseProblems(this.name, planProblems(plan));
    // Each probe is a transaction, and the answer follows from what the catalogue says: it is not asked twice for the same.
    const facts = factsOf(catalogue);
    if (facts !== this.#probed) refuseProblems(this.name, await probeProblems(this.#connections, places, signal));
    this.#probed = facts;
    this.#plan = { plan, readAt };
    return plan;
  }

  /** Turns every fault into one that says what follows and holds nothing of the data. */
  async #guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (fault) {
      const error = asTargetError(fault, this.name, this.#plan && namesOf(this.#plan.plan));
      // A table or column went away: the next call reads the catalogue again and says which.
      if (error instanceof TargetDeclarationError || fault instanceof ServerRefusal) this.#plan = null;
      throw error;
    }
  }
}

function added(known: RevokedPlaces, more: RevokedPlaces): RevokedPlaces {
  const rows = new Map(known.map((one) => [one.place, one.rows]));
  for (const one of more) rows.set(one.place, (rows.get(one.place) ?? 0) + one.rows);
  return [...rows].map(([place, count]) => ({ place, rows: count }));
}

/** The catalogue as text, without the numbers of rows, which change all the time. */
function factsOf({ server, relations, columns, foreignKeys }: Catalogue): string {
  const tables = [...relations.values()].map((relation) => ({ ...relation, rows: null }));
  return JSON.stringify([server, tables, [...columns].map(([oid, of]) => [oid, [...of.values()]]), foreignKeys]);
}

function namesOf({ catalogue }: Plan): KnownNames {
  return {
    constraints: catalogue.constraintNames,
    tables: new Set([...catalogue.relations.values()].map(({ name }) => name)),
  };
}

/** `place` is empty: it concerns the whole database. */
function serverProblems(server: { version: number; encoding: string; replicationRole: string }): readonly Problem[] {
  const problems: Problem[] = [];
  if (server.version < 120_000) problems.push({ place: '', text: 'is older than PostgreSQL 12' });
  if (server.encoding !== 'UTF8') {
    problems.push({
      place: '',
      text: `has the encoding ${server.encoding}, in which not every identifier can be compared; it has to be UTF8`,
    });
  }
  if (server.replicationRole !== 'origin') {
    problems.push({
      place: '',
      text: `sets session_replication_role to ${server.replicationRole} for this role, which switches foreign keys off; use another role`,
    });
  }
  return problems;
}
