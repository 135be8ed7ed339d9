/**
 * One transaction of an erase: locks rows of a unit, cleans what is reached through them, makes sure that nobody else's rows
 * hang on them, acts, and looks at what the server really did (contract WF-16).
 */
import type { Catalogue } from '../../schema/catalogue.js';
import { ancestors, type BoundPlace } from '../tables/bound-place.js';
import type { Query } from './connection.js';
import { canDeleteDirectly, deleteDirectly } from './direct-delete.js';
import type { Unit } from '../tables/plan.js';
import { type Locked, type PerSubject, perSubjectOf, RowStatements } from './row-statements.js';
import type { Subjects } from '../tables/subjects.js';
import type { SubjectRef } from '../target.js';

/** Why a subject cannot go on, found by looking and not by an error of the server. The transaction is rolled back. */
export class SubjectsRefused extends Error {
  readonly refusals: ReadonlyMap<SubjectRef, Refusal>;
  constructor(refusals: ReadonlyMap<SubjectRef, Refusal>) {
    super('refused');
    this.refusals = refusals;
  }
}

export interface Refusal {
  readonly why: 'still-there' | 'referenced';
  readonly place: string;
  readonly rows: number;
  readonly constraint?: string;
}

export interface UnitProgress {
  /** Rows that were deleted or overwritten, by place and subject. */
  readonly done: ReadonlyMap<BoundPlace, ReadonlyMap<SubjectRef, number>>;
  readonly rows: number;
  /** Whether nothing of the unit was left to do for these subjects. */
  readonly drained: boolean;
}

export interface UnitOptions {
  /** At most this many rows; only a true circle of rows that is larger goes over it. */
  readonly limit: number;
  /** Whether a circle has to be taken whole, because a part of it was refused by the server. */
  readonly whole: boolean;
  /** Whether the slice has done nothing yet: only then may a circle be larger than the limit. */
  readonly first: boolean;
}

/** How often children are looked for again while others insert them without a foreign key that would stop them. */
const ROUNDS = 3;

/**
 * Erases at most `limit` rows of the unit in the transaction of `query`.
 *
 * @throws SubjectsRefused, ServerRefusal, NoAnswer: the caller rolls back.
 */
export async function eraseUnit(
  query: Query,
  catalogue: Catalogue,
  unit: Unit,
  subjects: Subjects,
  options: UnitOptions,
): Promise<UnitProgress> {
  const transaction = new UnitTransaction(query, catalogue, unit, subjects, options);
  return unit.cyclic ? transaction.circle() : transaction.plain();
}

class UnitTransaction {
  readonly #query: Query;
  readonly #catalogue: Catalogue;
  readonly #unit: Unit;
  readonly #subjects: Subjects;
  readonly #options: UnitOptions;
  readonly #statements: RowStatements;
  readonly #done = new Map<BoundPlace, Map<SubjectRef, number>>();
  #rows = 0;

  constructor(query: Query, catalogue: Catalogue, unit: Unit, subjects: Subjects, options: UnitOptions) {
    this.#query = query;
    this.#catalogue = catalogue;
    this.#unit = unit;
    this.#subjects = subjects;
    this.#options = options;
    this.#statements = new RowStatements(query, catalogue, subjects);
  }

  get #room(): number {
    return this.#options.limit - this.#rows;
  }

  async plain(): Promise<UnitProgress> {
    const { core, attached, exposed } = this.#unit;
    if (attached.length === 0 && exposed.length === 0 && canDeleteDirectly(core[0]!)) {
      return this.#progress((await this.#deleteDirectly(core[0]!)) === 'all');
    }
    const limit = parentsFor(this.#unit, this.#options.limit);
    const locked = await this.#lock(core[0]!, { limit });
    if (!(await this.#cleanBelow([locked]))) return this.#progress(false);
    await this.#refuseReferenced([locked]);
    const room = this.#room;
    if (locked.rows > 0) await this.#act([locked], room);
    return this.#progress(!locked.full && locked.rows <= room && locked.skipped === 0);
  }

  /**
   * Everything at once where it is little; else leaves, which nothing references; and where there are no leaves, true
   * circles: whole subjects, as many as there is room for.
   */
  async circle(): Promise<UnitProgress> {
    const { core } = this.#unit;
    let rows = 0;
    for (const place of core) rows += await this.#statements.probe(place, this.#room + 1);
    if (rows === 0) return this.#progress(true);
    if (rows <= this.#room || this.#options.whole) return this.#together();
    const leaves = await this.#lockLeaves();
    if (leaves.length === 0) return this.#someSubjects();
    if (!(await this.#cleanBelow(leaves))) return this.#progress(false);
    await this.#refuseReferenced(leaves);
    for (const locked of leaves) if (this.#room > 0) await this.#act([locked], this.#room);
    return this.#progress(false);
  }

  /** All rows of all subjects in one statement, at whose end the foreign keys are checked. */
  async #together(): Promise<UnitProgress> {
    const limit = this.#options.whole ? Number.MAX_SAFE_INTEGER : this.#options.limit;
    const locked: Locked[] = [];
    for (const place of this.#unit.core) locked.push(await this.#lock(place, { limit }));
    if (!(await this.#cleanBelow(locked))) return this.#progress(false);
    const rows = locked.reduce((total, some) => total + some.rows, 0);
    if (rows > this.#room && !this.#options.whole) return this.#progress(false);
    await this.#refuseReferenced(locked);
    const found = locked.filter((some) => some.rows > 0);
    if (found.length > 0) await this.#act(found);
    return this.#progress(locked.every(({ skipped }) => skipped === 0));
  }

  async #lockLeaves(): Promise<readonly Locked[]> {
    const leaves: Locked[] = [];
    let room = this.#room;
    for (const place of this.#unit.core) {
      if (room <= 0) break;
      const locked = await this.#lock(place, { limit: room, leavesOf: this.#unit.core });
      room -= locked.rows;
      if (locked.rows > 0) leaves.push(locked);
    }
    return leaves;
  }

  /** The first subjects whose rows fit, and at least one; all of them, where their circles go over several subjects. */
  async #someSubjects(): Promise<UnitProgress> {
    const perSubject = new Map<number, number>();
    for (const place of this.#unit.core) {
      for (const [ref, rows] of await this.#statements.todo(place))
        perSubject.set(ref, (perSubject.get(ref) ?? 0) + rows);
    }
    const chosen = new Set<SubjectRef>();
    let room = this.#room;
    for (const [position, rows] of [...perSubject].sort(([a], [b]) => a - b)) {
      if (rows > room && (chosen.size > 0 || !this.#options.first)) break;
      room -= rows;
      chosen.add(this.#subjects.at(position));
    }
    if (chosen.size === 0) return this.#progress(false);
    try {
      const progress = await this.#wholly(this.#subjects.only((ref) => chosen.has(ref)));
      return { ...progress, drained: chosen.size === perSubject.size };
    } catch (fault) {
      if (!(fault instanceof SubjectsRefused) || chosen.size === perSubject.size) throw fault;
      if ([...fault.refusals.values()].some(({ why }) => why !== 'referenced')) throw fault;
      return this.#options.first ? this.#wholly(this.#subjects) : this.#progress(false);
    }
  }

  #wholly(subjects: Subjects): Promise<UnitProgress> {
    const options = { ...this.#options, whole: true };
    return new UnitTransaction(this.#query, this.#catalogue, this.#unit, subjects, options).#together();
  }

  #lock(
    place: BoundPlace,
    options: { limit: number; within?: Locked; leavesOf?: readonly BoundPlace[] },
  ): Promise<Locked> {
    // A trigger can update the row itself, or the parent of rows that are deleted, and a row that is updated moves.
    const byKey = this.#unit.attached.length > 0 || this.#unit.core.length > 1 || place.relation.mayRefuseSilently;
    return this.#statements.lock(place, { ...options, byKey });
  }

  /** Cleans what is reached through the locked rows. Answers false where there is more of it than room. */
  async #cleanBelow(locked: readonly Locked[]): Promise<boolean> {
    for (const place of this.#unit.attached) {
      for (const above of locked.filter((some) => some.rows > 0 && ancestors(place).includes(some.place))) {
        if (!(await this.#cleanPlaceBelow(place, above))) return false;
      }
    }
    return true;
  }

  async #cleanPlaceBelow(place: BoundPlace, above: Locked): Promise<boolean> {
    let left: PerSubject = new Map();
    for (let round = 0; round < ROUNDS; round += 1) {
      const reached = await this.#cleanOnce(place, above);
      if (reached !== 'all') return reached === 'none';
      // No row of a foreign key that holds can come to reference a row that is locked: there is nothing to count.
      if (isHeld(place, above)) return true;
      left = await this.#statements.leftBelow(place, above);
      if (left.size === 0) return true;
    }
    return this.#refuse(left, { why: 'still-there', place: place.place });
  }

  /** Cleans what is there: `none` where nothing was, `all` where everything was cleaned, `some` where there was more than room. */
  async #cleanOnce(place: BoundPlace, above: Locked): Promise<'none' | 'some' | 'all'> {
    const room = this.#options.whole ? Number.MAX_SAFE_INTEGER : this.#room;
    if (room <= 0) return 'some';
    const isLeaf = !this.#unit.attached.some((other) => ancestors(other).includes(place));
    if (isLeaf && canDeleteDirectly(place, above)) return this.#deleteDirectly(place, above);
    const locked = await this.#lock(place, { limit: room, within: above });
    if (locked.rows > 0) await this.#act([locked]);
    if (locked.full) return 'some';
    return locked.rows === 0 && locked.skipped === 0 ? 'none' : 'all';
  }

  async #deleteDirectly(place: BoundPlace, above?: Locked): Promise<'some' | 'all'> {
    for (let round = 0; round < ROUNDS; round += 1) {
      const limit = this.#options.whole ? Number.MAX_SAFE_INTEGER : this.#room;
      if (limit <= 0) return 'some';
      const { found, rows, perSubject } = await deleteDirectly(this.#query, place, this.#subjects, limit, above);
      this.#add(place, perSubject, rows);
      if (found >= limit) return 'some';
      if (rows === found) return 'all';
    }
    const left = await (above ? this.#statements.leftBelow(place, above) : this.#statements.todo(place));
    return left.size === 0 ? 'all' : this.#refuse(left, { why: 'still-there', place: place.place });
  }

  /** Rows of others that appeared since the erase began, or that a subject who failed before has left. */
  async #refuseReferenced(locked: readonly Locked[]): Promise<void> {
    for (const exposure of this.#unit.exposed) {
      if (!locked.some(({ place, rows }) => place === exposure.struck && rows > 0)) continue;
      const found = await this.#statements.referencing(exposure, locked);
      if (found.size === 0) continue;
      const { struck, key } = exposure;
      this.#refuse(found, { why: 'referenced', place: struck.place, constraint: key.name });
    }
  }

  async #act(locked: readonly Locked[], most?: number): Promise<void> {
    const acted = await this.#statements.act(locked, most);
    for (const rows of locked) {
      if (acted.get(rows.place)! < Math.min(rows.rows, most ?? rows.rows)) await this.#refuseStillThere(rows, most);
      this.#add(rows.place, perSubjectOf(rows, most));
    }
  }

  /** The server did less than it was asked, with rows that nobody else can touch: a trigger or a rule keeps them. */
  async #refuseStillThere(rows: Locked, most?: number): Promise<void> {
    const named = await this.#statements.left(rows, most);
    // Rows without a key cannot be told from others once a trigger has moved them: then all that are left are named.
    const left = named.size > 0 ? named : await this.#statements.todo(rows.place);
    if (left.size > 0) this.#refuse(left, { why: 'still-there', place: rows.place.place });
  }

  #refuse(counts: PerSubject, refusal: Omit<Refusal, 'rows'>): never {
    throw new SubjectsRefused(
      new Map([...counts].map(([ref, rows]) => [this.#subjects.at(ref), { ...refusal, rows }])),
    );
  }

  /** @param rows - where a row of two subjects is counted for both, how many there are. */
  #add(place: BoundPlace, counts: PerSubject, rows = sum(counts)): void {
    const known = this.#done.get(place) ?? new Map<SubjectRef, number>();
    for (const [position, count] of counts) {
      const ref = this.#subjects.at(position);
      known.set(ref, (known.get(ref) ?? 0) + count);
    }
    this.#done.set(place, known);
    this.#rows += rows;
  }

  #progress(drained: boolean): UnitProgress {
    return { done: this.#done, rows: this.#rows, drained };
  }
}

function isHeld({ link, relation }: BoundPlace, above: Locked): boolean {
  if (link.by !== 'parent' || link.parent !== above.place || relation.mayRefuseSilently) return false;
  return link.foreignKey?.enforced === true && link.foreignKey.childPart === relation.oid;
}

function sum(counts: ReadonlyMap<unknown, number>): number {
  return [...counts.values()].reduce((total, rows) => total + rows, 0);
}

/** How many rows to lock so that they and what is reached through them fill a transaction, by the planner's estimates. */
function parentsFor(unit: Unit, limit: number): number {
  const parents = unit.core[0]!.relation.rows ?? 0;
  const below = unit.attached.reduce(
    (total, { relation }) => total + (parents > 0 ? (relation.rows ?? 0) / parents : 1),
    0,
  );
  return Math.max(1, Math.min(limit, Math.floor(limit / (1 + below))));
}
