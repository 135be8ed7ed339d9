/**
 * Deletes from an embedded PostgreSQL database (PGlite) in a directory, which one process has at a time: for trials and demos.
 *
 * ```ts
 * import { pglite } from 'expunge/pglite';
 *
 * pglite({ directory: './shop', tables: { customer: { key: { customer_id: 'customerId' }, action: 'delete' } } });
 * ```
 *
 * What is declared, and everything that is done, is as with `expunge/postgres`.
 */
import { basename } from 'node:path';
import { declarationJson, parseDeclaration, type PostgresOptions } from '../postgres/declaration.js';
import { PostgresTarget } from '../postgres/postgres-target.js';
import { identifiersOfPlaces } from '../tables/declaration.js';
import type { TargetDeclaration } from '../target.js';
import { PGliteConnections } from './pglite-connections.js';

/** Raised whenever the same declaration would be carried out differently. */
const HANDLER_VERSION = 1;

export interface PGliteOptions<I extends string> extends Pick<PostgresOptions<I>, 'tables' | 'schemas'> {
  /** The directory that holds the database. */
  readonly directory: string;
}

/**
 * Declares where an embedded database holds data of a subject. It is opened when it is first used, and kept until the end.
 *
 * @typeParam I - the identifiers that the rules name; `defineConfig` holds them against those that are declared.
 * @throws TargetDeclarationError that names the field, what was found and what is expected.
 */
export function pglite<const I extends string>({ directory, ...rules }: PGliteOptions<I>): TargetDeclaration<I> {
  const options = { ...rules, url: undefined };
  const declared = parseDeclaration(options);
  return Object.freeze({
    kind: 'pglite',
    handlerVersion: HANDLER_VERSION,
    // Where the directory lies is no part of what is done; the same data may be mounted elsewhere.
    plan: { directory: basename(directory), ...declarationJson(options) },
    identifiers: identifiersOfPlaces(declared) as readonly I[],
    locators: {},
    revokes: declared.some(({ revoke }) => revoke),
    open: (name: string) => new PostgresTarget(name, new PGliteConnections(directory), declared),
  });
}
