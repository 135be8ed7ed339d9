/** The handle through which everything reaches Expunge's own database, on either driver. */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { JsonValue } from './json.js';

/** Statements are written as SQL; Kysely binds parameters and runs them. */
export type AnyKysely = Kysely<Record<string, never>>;

/** The product's tables, qualified and quoted, for use inside `sql` templates. */
export type TableNames = Readonly<Record<TableKey | keyof typeof FUNCTIONS, RawBuilder<unknown>>>;

export const TABLES = {
  requests: 'entity_deletion_requests',
  inventories: 'entity_deletion_inventories',
  approvals: 'entity_deletion_approvals',
  stages: 'entity_deletion_stage_history',
  sealed: 'deletion_sealed_identifiers',
  orders: 'deletion_orders',
  receipts: 'deletion_receipts',
  events: 'deletion_events',
  tombstones: 'deletion_tombstones',
  batches: 'deletion_batches',
  omissions: 'deletion_batch_omissions',
  standing: 'deletion_standing_approvals',
  standingDecisions: 'deletion_standing_approval_decisions',
} as const;

/** Functions, which are qualified as tables are. */
const FUNCTIONS = { applyStandingApprovals: 'apply_standing_approvals' } as const;

export type TableKey = keyof typeof TABLES;

export function tableNames(schema: string): TableNames {
  const qualified = Object.entries({ ...TABLES, ...FUNCTIONS }).map(
    ([key, table]) => [key, sql.id(schema, table)] as const,
  );
  return Object.freeze(Object.fromEntries(qualified)) as TableNames;
}

/** What a durable operation needs to run: the same inside and outside of a transaction. */
export interface Queries {
  readonly db: AnyKysely;
  readonly t: TableNames;
}

export interface Database extends Queries {
  readonly kind: 'postgres' | 'pglite';
  readonly schema: string;
  /** Where it is, without credentials; for messages. */
  readonly location: string;
  /** A connection of its own for lease renewals. On an embedded database it is the only session that there is. */
  readonly aside: Queries & Pick<Database, 'transaction'>;
  /** Runs `work` in one READ COMMITTED transaction; an exception rolls it back. */
  transaction<T>(work: (tx: Queries) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** Many rows as one parameter, for `jsonb_to_recordset`. The number of parameters does not depend on the batch. */
export function recordset(rows: readonly Readonly<Record<string, JsonValue | undefined>>[]): RawBuilder<unknown> {
  return sql`${JSON.stringify(rows)}::text::jsonb`;
}

/** Many ids as one parameter: `id = ANY(${uuids(ids)})`. */
export function uuids(ids: readonly string[]): RawBuilder<string[]> {
  return sql`ARRAY(SELECT value::uuid FROM jsonb_array_elements_text(${JSON.stringify(ids)}::text::jsonb))`;
}
