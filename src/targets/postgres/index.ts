/**
 * Deletes from a PostgreSQL database.
 *
 * ```ts
 * import { postgres } from 'expunge/postgres';
 *
 * postgres({
 *   url: process.env.SHOP_URL,
 *   tables: {
 *     customer: { key: { customer_id: 'customerId' }, action: 'delete' },
 *     session: { key: { customer_id: 'customerId' }, action: 'delete', revoke: true },
 *     invoice: {
 *       key: { customer_id: 'customerId' },
 *       action: 'anonymize',
 *       set: { customer_id: null, billing_address: null },
 *       keep: { basis: 'tax law', from: 'invoice_date', for: 'P10Y' },
 *     },
 *     invoice_line: { through: 'invoice', action: 'retain', keep: { basis: 'tax law', from: 'invoice_date', for: 'P10Y' } },
 *   },
 * });
 * ```
 *
 * The role needs SELECT on every table; DELETE and UPDATE on one column at least (for the locks) where rows are deleted;
 * UPDATE where they are anonymized; and the ownership of the tables, or MAINTAIN, for VACUUM after an erase.
 */
import pg from 'pg';
import type { JsonObject } from '../../storage/json.js';
import { TargetDeclarationError } from '../target-error.js';
import { identifiersOfPlaces } from '../tables/declaration.js';
import type { TargetDeclaration } from '../target.js';
import { PooledConnections } from './connection.js';
import { declarationJson, parseDeclaration, type PostgresOptions } from './declaration.js';
import { PostgresTarget } from './postgres-target.js';

export type { CleanupReason } from './cleanup.js';
export type {
  AnonymizeRows,
  ByKey,
  ByParent,
  DeleteRows,
  Keep,
  ParentTable,
  RetainRows,
  TableRule,
  Tables,
} from '../tables/declaration.js';
export type { PostgresOptions, Timeouts } from './declaration.js';
export { PostgresTarget } from './postgres-target.js';
export type { PostgresWarning } from './warnings.js';

/** Raised whenever the same declaration would be carried out differently. */
const HANDLER_VERSION = 1;

/** A PostgreSQL database as it stands in the configuration. */
export interface PostgresDeclaration<I extends string = string> extends TargetDeclaration<I> {
  readonly kind: 'postgres';
  /** The name of the fence that guards this database; null where none does. */
  readonly fence: string | null;
  /** @throws TargetDeclarationError where the declaration has no URL. */
  open(name: string): PostgresTarget;
}

/**
 * Declares where a PostgreSQL database holds data of a subject. Nothing is connected before the target is used.
 *
 * @typeParam I - the identifiers that the rules name; `defineConfig` holds them against those that are declared.
 * @throws TargetDeclarationError that names the field, what was found and what is expected.
 */
export function postgres<const I extends string>(options: PostgresOptions<I>): PostgresDeclaration<I> {
  const declared = parseDeclaration(options);
  const { url, fence, timeouts } = options;
  return Object.freeze({
    kind: 'postgres',
    handlerVersion: HANDLER_VERSION,
    plan: { server: serverOf(url), ...declarationJson(options) },
    identifiers: identifiersOfPlaces(declared) as readonly I[],
    locators: {},
    revokes: declared.some(({ revoke }) => revoke),
    fence: fence ?? null,
    open(name: string) {
      if (url === undefined) {
        throw new TargetDeclarationError(
          `Target "${name}" has no url; set the variable that the configuration reads it from.`,
          { target: name },
        );
      }
      return new PostgresTarget(name, new PooledConnections(url, timeouts ?? {}), declared);
    },
  });
}

/** Where the database is, without user, password and options. */
function serverOf(url: string | undefined): JsonObject | null {
  if (url === undefined) return null;
  try {
    const { host, port, database } = new pg.Client({ connectionString: url });
    return { host, port, database: database ?? null };
  } catch {
    // The driver's error shows the whole URL.
    throw new TargetDeclarationError(
      'postgres(): url: found something else, expected postgres://user:password@host:port/database.',
      { target: 'postgres' },
    );
  }
}
