/** Saves intents and cursors of running stages, under their leases (EX-24, WF-15). */
import { sql } from 'kysely';
import type { Queries } from '../storage/database.js';
import type { JsonValue } from '../storage/json.js';
import { storableJson } from '../storage/storable.js';
import { owned } from './fence.js';
import type { Lease } from './request.js';

export interface Progress {
  readonly lease: Lease;
  readonly stageId: string;
  readonly intent?: JsonValue;
  readonly cursor?: JsonValue;
}

/** `ordered`: a hold or cancel stands; nothing was saved, and the handler has to stop. */
export type ProgressResult = 'saved' | 'ordered' | 'stale';

/** No intent is saved while an order stands: this is what makes the point of no return a point (OP-9). */
export async function saveProgress(
  queries: Queries,
  progress: readonly Progress[],
): Promise<ReadonlyMap<string, ProgressResult>> {
  const { db, t } = queries;
  const rows = progress.map(({ lease, stageId, intent, cursor }) => ({
    lease,
    values: {
      stage_id: stageId,
      patch: {
        ...(intent === undefined ? {} : { intent: storableJson(intent) }),
        ...(cursor === undefined ? {} : { cursor: storableJson(cursor) }),
      },
    },
  }));
  const { rows: found } = await sql<{ request_id: string; result: ProgressResult }>`
    WITH ${owned(t, rows, sql`stage_id uuid, patch jsonb`)},
    saved AS (
      UPDATE ${t.stages} s
         SET metadata_json = s.metadata_json || owned.patch
        FROM owned
       WHERE s.id = owned.stage_id
         AND s.request_id = owned.request_id
         AND s.is_current
         AND s.status = 'running'
         AND owned.standing_order IS NULL
      RETURNING s.request_id
    )
    SELECT request_id, 'saved' AS result FROM saved
    UNION ALL
    SELECT request_id, 'ordered' FROM owned WHERE standing_order IS NOT NULL`.execute(db);
  const results = new Map<string, ProgressResult>(found.map(({ request_id, result }) => [request_id, result]));
  return new Map(progress.map(({ lease }) => [lease.requestId, results.get(lease.requestId) ?? 'stale']));
}
