/** Operations that break one rule each: what the model has to find. Each wraps the real one, and undoes what it takes care of. */
import { sql } from 'kysely';
import type { Queries } from '../../src/storage/database.js';
import type { Lease } from '../../src/requests/request.js';
import { operations, type Operations } from './real-request.js';

/** As if a fence did not look at the generation: whoever has ever owned the request writes as its owner of today. */
async function asOwnerOfToday<R extends { readonly lease: Lease }>(
  { db, t }: Queries,
  rows: readonly R[],
): Promise<R[]> {
  const { rows: owners } = await sql<{ owner: string; generation: number }>`
    SELECT lease_owner AS owner, lease_generation AS generation FROM ${t.requests}
     WHERE id = ${rows[0]?.lease.requestId}::uuid AND lease_owner IS NOT NULL`.execute(db);
  return rows.map((row) => ({ ...row, lease: { ...row.lease, ...owners[0] } }));
}

/** Keeps the count of failures as it was, for a request that goes on. */
async function keepingFailures<R extends { readonly kind: string }>(
  { db, t }: Queries,
  id: string | undefined,
  move: () => Promise<ReadonlyMap<string, R>>,
): Promise<ReadonlyMap<string, R>> {
  const { rows } = await sql<{ count: number }>`
    SELECT retry_count AS count FROM ${t.requests} WHERE id = ${id}::uuid`.execute(db);
  const results = await move();
  if ([...results.values()].some(({ kind }) => kind === 'current')) {
    await sql`UPDATE ${t.requests} SET retry_count = ${rows[0]?.count} WHERE id = ${id}::uuid`.execute(db);
  }
  return results;
}

interface Fault {
  readonly rule: string;
  /** One with which it is found soon; any other finds it, too. */
  readonly seed: number;
  readonly operations: Operations;
}

export const faults: readonly Fault[] = [
  {
    rule: 'a save under any generation of the lease',
    seed: 1,
    operations: {
      ...operations,
      saveOutcomes: async (queries, rows) => operations.saveOutcomes(queries, await asOwnerOfToday(queries, rows)),
    },
  },
  {
    rule: 'a claim of what is leased',
    seed: 1,
    operations: {
      ...operations,
      claimOne: async (tx, id, owner) => {
        await sql`
          UPDATE ${tx.t.requests} SET lease_expires_at = clock_timestamp()
           WHERE id = ${id}::uuid AND lease_owner IS NOT NULL`.execute(tx.db);
        return operations.claimOne(tx, id, owner);
      },
    },
  },
  {
    rule: 'a transition that keeps the count of failures',
    seed: 6,
    operations: {
      ...operations,
      goOn: (database, items, rules) =>
        keepingFailures(database, items[0]?.lease.requestId, () => operations.goOn(database, items, rules)),
      transition: (tx, items, rules) =>
        keepingFailures(tx, items[0]?.requestId, () => operations.transition(tx, items, rules)),
    },
  },
];
