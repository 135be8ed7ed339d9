/** The append-only log of every status change, refusal and operator action: codes, names and numbers only. */
import { sql } from 'kysely';
import { type Queries, recordset } from '../storage/database.js';
import type { JsonObject } from '../storage/json.js';

export interface DeletionEvent {
  readonly request_id: string | null;
  readonly event: string;
  /** An operator's or a worker's id. */
  readonly actor: string | null;
  readonly detail: JsonObject;
}

export interface EventRow extends DeletionEvent {
  readonly id: number;
  readonly at: Date;
}

export async function appendEvents(queries: Queries, events: readonly DeletionEvent[]): Promise<void> {
  if (events.length === 0) return;
  const { db, t } = queries;
  await sql`
    INSERT INTO ${t.events} (request_id, event, actor, detail)
    SELECT x.request_id, x.event, x.actor, x.detail
      FROM jsonb_to_recordset(${recordset(events.map((event) => ({ ...event })))})
           AS x (request_id uuid, event text, actor text, detail jsonb)`.execute(db);
}
