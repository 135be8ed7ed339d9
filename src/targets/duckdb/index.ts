/**
 * Deletes from a DuckDB file.
 *
 * ```ts
 * import { duckdb } from 'expunge/duckdb';
 *
 * duckdb({
 *   file: '/srv/analytics/warehouse.duckdb',
 *   tables: { event: { key: { customer_id: 'customerId' }, action: 'delete' } },
 *   schemas: { marts: { order_fact: { key: { customer_id: 'customerId' }, action: 'anonymize', set: { customer_id: null } } } },
 * });
 * ```
 *
 * It needs the driver: `npm i @duckdb/node-api`. One process has the file at a time; while another has it, the target is waited
 * for. What stays in the file is in docs/duckdb.md.
 */
import type { TargetDeclaration } from '../target.js';
import type { Tables } from '../tables/declaration.js';
import { declareStore } from '../tables/store/declare-store.js';
import { DuckDBStore } from './duckdb-store.js';

/** Raised whenever the same declaration would be carried out differently. */
const HANDLER_VERSION = 1;

export interface DuckDBOptions<I extends string = string> {
  /** The database file. It has to be there: it is never created. */
  readonly file: string;
  /** Tables of the schema `main`, by their exact names. */
  readonly tables?: Tables<I>;
  /** Tables of other schemas, by the schema's name. */
  readonly schemas?: { readonly [schema: string]: Tables<I> };
}

/**
 * Declares where a DuckDB file holds data of a subject. It is opened for each call, and closed after it.
 *
 * @typeParam I - the identifiers that the rules name; `defineConfig` holds them against those that are declared.
 * @throws TargetDeclarationError that names the field, what was found and what is expected.
 */
export function duckdb<const I extends string>(options: DuckDBOptions<I>): TargetDeclaration<I> {
  return declareStore(
    { kind: 'duckdb', handlerVersion: HANDLER_VERSION, open: (file) => new DuckDBStore(file) },
    options,
  );
}
