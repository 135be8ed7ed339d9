/** What a store of plain tables in one file offers to the target that all such stores share. */
import type { Catalogue, Column, Relation } from '../../../schema/catalogue.js';
import type { Cleanup } from '../../target.js';
import type { ColumnRules, Problem } from '../bind-places.js';
import type { BoundPlace } from '../bound-place.js';
import type { DeclaredPlace } from '../declaration.js';

export type Value = string | number | bigint | null | readonly (string | null)[];

/** One transaction. */
export interface Session {
  query(text: string, values: readonly Value[]): Promise<readonly Readonly<Record<string, unknown>>[]>;
}

export interface Store {
  readonly forms: SqlForms;
  readonly columns: ColumnRules;
  /** One snapshot, on a connection that never writes. @throws StoreFault */
  read<T>(signal: AbortSignal, work: (session: Session) => Promise<T>): Promise<T>;
  /** One transaction: committed at the end of `work`, unless it throws or the signal was aborted. @throws StoreFault */
  write<T>(signal: AbortSignal, work: (session: Session) => Promise<T>): Promise<T>;
  readCatalogue(session: Session): Promise<Catalogue>;
  /** What this kind of store cannot honestly do with what is declared, before names are bound. */
  declaredProblems(declared: readonly DeclaredPlace[], catalogue: Catalogue): readonly Problem[];
  /** Deletes or overwrites these rows by `act`, with whatever has to be done or looked at around it. */
  around(session: Session, place: BoundPlace, rows: readonly string[], act: () => Promise<void>): Promise<void>;
  cleanup(places: readonly BoundPlace[], signal: AbortSignal): Promise<readonly Cleanup[]>;
  close(): Promise<void>;
}

/** How the store's SQL says what every statement is made of. */
export interface SqlForms {
  /** The placeholder of a parameter, by its number from 1. */
  placeholder(position: number): string;
  /**
   * A subquery with columns `c0`, `c1` and so on, all text, one row for each position of the lists.
   *
   * @param add - adds a parameter and answers its placeholder.
   */
  lists(lists: readonly (readonly (string | null)[])[], add: (value: Value) => string): string;
  table(relation: Relation): string;
  /** What names a row of the table, as a number. */
  row(relation: Relation, alias: string): string;
  /** Whether a key column holds exactly the value, which is text. */
  equalsKey(found: string, column: Column, value: string): string;
  /** Whether two columns hold the same value, byte by byte. */
  equalsColumn(left: string, right: string, column: Column): string;
  /** Whether a column holds anything else than a value, which is text; never NULL. */
  differs(found: string, column: Column, value: string): string;
  /** A value, which is text, as the column takes it. */
  assigned(column: Column, value: string): string;
  /** The value as text. */
  text(expression: string): string;
}

/** What follows from a fault of the store; `subject` where another subject of the same statement may be free of it. */
export type FaultKind = 'unavailable' | 'declaration' | 'failed' | 'subject';

/** A fault of the store by its kind and code: its own message holds values, and ends where this begins. */
export class StoreFault extends Error {
  readonly kind: FaultKind;
  readonly reason: string;
  constructor(kind: FaultKind, reason: string) {
    super(reason);
    this.kind = kind;
    this.reason = reason;
  }
}

/** @throws StoreFault where the call was aborted. */
export function refuseAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new StoreFault('unavailable', 'ABORTED');
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
