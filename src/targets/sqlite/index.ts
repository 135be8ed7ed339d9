/**
 * Deletes from a SQLite file: plain tables and FTS5 search indexes.
 *
 * ```ts
 * import { sqlite } from 'expunge/sqlite';
 *
 * sqlite({
 *   file: '/srv/search/search.db',
 *   tables: {
 *     profile: { key: { customer_id: 'customerId' }, action: 'delete' },
 *     document: { key: { customer_id: 'customerId' }, action: 'delete' }, // a table, or an FTS5 index with its own content
 *     words: { through: { table: 'profile', on: { rowid: 'profile_id' } }, action: 'delete' },
 *   },
 * });
 * ```
 *
 * It needs the driver: `npm i libsql`. What is supported of FTS5, and what stays in the file, is in docs/sqlite.md.
 */
import type { TargetDeclaration } from '../target.js';
import type { Tables } from '../tables/declaration.js';
import { declareStore } from '../tables/store/declare-store.js';
import { SqliteStore } from './sqlite-store.js';

/** Raised whenever the same declaration would be carried out differently. */
const HANDLER_VERSION = 1;

export interface SqliteOptions<I extends string = string> {
  /** The database file. It has to be there: it is never created. */
  readonly file: string;
  /** Tables and FTS5 indexes, by their exact names. */
  readonly tables: Tables<I>;
}

/**
 * Declares where a SQLite file holds data of a subject. It is opened when it is first used.
 *
 * @typeParam I - the identifiers that the rules name; `defineConfig` holds them against those that are declared.
 * @throws TargetDeclarationError that names the field, what was found and what is expected.
 */
export function sqlite<const I extends string>(options: SqliteOptions<I>): TargetDeclaration<I> {
  return declareStore(
    { kind: 'sqlite', handlerVersion: HANDLER_VERSION, open: (file) => new SqliteStore(file) },
    options,
  );
}
