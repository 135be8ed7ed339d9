/**
 * Physical clean-up after an erase (contract WF-23): VACUUM removes the deleted row versions, ANALYZE what the planner's
 * statistics copied from them. Both run outside of any transaction, and wait for nobody: a table that is locked is named.
 */
import type { Relation } from '../../schema/catalogue.js';
import type { Cleanup } from '../target.js';
import type { BoundPlace } from '../tables/bound-place.js';
import type { Connections, Query } from './connection.js';
import { quoted } from './sql.js';

/** Why something could not be done, or what stays all the same. */
export type CleanupReason =
  /** The role is neither the table's nor the database's owner, and has no MAINTAIN privilege. */
  | 'NOT_OWNER'
  /** Somebody else held a lock on the table. */
  | 'LOCKED'
  /** ANALYZE leaves the statistics of a table without rows as they were, with the values that they copied. */
  | 'STATISTICS_OF_EMPTY_TABLE'
  /** A transaction, a replication slot or a prepared transaction still sees the deleted rows, so that they stay. */
  | 'HELD_BY_OLDER_SNAPSHOT';

/** SQLSTATE of the notice with which SKIP_LOCKED passes a table by: lock_not_available. */
const LOCK_NOT_AVAILABLE = '55P03';

export async function cleanUp(
  connections: Connections,
  places: readonly BoundPlace[],
  signal: AbortSignal,
): Promise<readonly Cleanup[]> {
  const notices: string[] = [];
  return connections.alone(
    signal,
    (sqlstate) => notices.push(sqlstate),
    async (query, patient) => {
      const byTable = new Map<number, Omit<Cleanup, 'place'>>();
      for (const { relation, place } of places) {
        if (byTable.has(relation.oid)) continue;
        byTable.set(relation.oid, await cleanTable({ query, patient }, relation, place, notices));
      }
      return places.map(({ place, relation }) => ({ place, ...byTable.get(relation.oid)! }));
    },
  );
}

async function cleanTable(
  { query, patient }: { readonly query: Query; readonly patient: Query },
  relation: Relation,
  place: string,
  notices: string[],
): Promise<Omit<Cleanup, 'place'>> {
  const did: string[] = [];
  const left: CleanupReason[] = [];
  if (await mayMaintain(query, relation)) {
    const [before] = await query<{ readonly xid: string }>('SELECT pg_current_xact_id()::text AS xid');
    notices.length = 0;
    await patient(`VACUUM (ANALYZE, SKIP_LOCKED) ${quoted(relation.schema)}.${quoted(relation.name)}`, [], place);
    if (notices.includes(LOCK_NOT_AVAILABLE)) left.push('LOCKED');
    else did.push('vacuum', 'analyze');
    if (await isHeld(query, before!.xid)) left.push('HELD_BY_OLDER_SNAPSHOT');
  } else {
    left.push('NOT_OWNER');
  }
  if (await hasStatisticsOfNothing(query, relation)) left.push('STATISTICS_OF_EMPTY_TABLE');
  return { did, left };
}

/** By itself VACUUM only warns about a table that it may not touch. MAINTAIN came with PostgreSQL 17. */
async function mayMaintain(query: Query, relation: Relation): Promise<boolean> {
  const [server] = await query<{ readonly version: number }>(
    `SELECT current_setting('server_version_num')::int AS version`,
  );
  const maintain = server!.version >= 170_000 ? `OR has_table_privilege(c.oid, 'MAINTAIN')` : '';
  const [row] = await query<{ readonly may: boolean }>(
    `SELECT pg_has_role(c.relowner, 'USAGE')
            OR (SELECT pg_has_role(d.datdba, 'USAGE') FROM pg_database d WHERE d.datname = current_database())
            ${maintain} AS may
       FROM pg_class c WHERE c.oid = $1::oid`,
    [relation.oid],
  );
  return row?.may === true;
}

/** Whether anybody who can be seen holds a snapshot from before the VACUUM, and so keeps it from removing rows. */
async function isHeld(query: Query, xid: string): Promise<boolean> {
  // Their 32 bits compare by age, which is how the server itself compares them.
  const [row] = await query<{ readonly held: boolean }>(
    `SELECT EXISTS (
       SELECT 1
         FROM (SELECT backend_xmin FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()
               UNION ALL SELECT xmin FROM pg_replication_slots
               UNION ALL SELECT transaction FROM pg_prepared_xacts WHERE database = current_database()) AS holders (oldest)
        WHERE age(oldest) > age($1::xid8::xid)) AS held`,
    [xid],
  );
  return row?.held === true;
}

/** For a partitioned table: whether any of its partitions is empty and has statistics. */
async function hasStatisticsOfNothing(query: Query, relation: Relation): Promise<boolean> {
  const [row] = await query<{ readonly found: boolean }>(
    `SELECT EXISTS (
       SELECT 1
         FROM pg_class c
         JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE (c.oid = $1::oid OR c.oid IN (SELECT relid FROM pg_partition_tree($1::oid::regclass)))
          AND c.reltuples <= 0
          AND EXISTS (SELECT 1 FROM pg_stats s WHERE s.schemaname = n.nspname AND s.tablename = c.relname)) AS found`,
    [relation.oid],
  );
  return row?.found === true;
}
