/** Marks current stages as running, before their handlers start (EX-6). */
import { sql } from 'kysely';
import type { Queries } from '../storage/database.js';
import { owned } from './fence.js';
import type { Lease } from './request.js';

export interface StageToStart {
  readonly lease: Lease;
  readonly stageId: string;
}

/** `ordered`: a hold or cancel stands, so that nothing new is begun. */
export type StartResult = 'started' | 'ordered' | 'stale';

/** The first `started_at` of a stage is kept, however often it is taken over (EX-16); it has not finished any more. */
export async function startStages(
  queries: Queries,
  stages: readonly StageToStart[],
): Promise<ReadonlyMap<string, StartResult>> {
  const { db, t } = queries;
  const rows = stages.map(({ lease, stageId }) => ({ lease, values: { stage_id: stageId } }));
  const { rows: found } = await sql<{ request_id: string; result: StartResult }>`
    WITH ${owned(t, rows, sql`stage_id uuid`)},
    started AS (
      UPDATE ${t.stages} s
         SET status = 'running', started_at = coalesce(s.started_at, owned.at), finished_at = NULL,
             attempts = s.attempts + 1
        FROM owned
       WHERE s.id = owned.stage_id
         AND s.request_id = owned.request_id
         AND s.is_current
         AND s.status <> 'completed'
         AND owned.standing_order IS NULL
      RETURNING s.request_id
    )
    SELECT request_id, 'started' AS result FROM started
    UNION ALL
    SELECT request_id, 'ordered' FROM owned WHERE standing_order IS NOT NULL`.execute(db);
  const results = new Map<string, StartResult>(found.map(({ request_id, result }) => [request_id, result]));
  return new Map(stages.map(({ lease }) => [lease.requestId, results.get(lease.requestId) ?? 'stale']));
}
