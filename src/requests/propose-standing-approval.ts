/** Proposes an approval that stands for requests to come (WF-8). Alone it approves nothing. */
import { sql } from 'kysely';
import { v7 as uuidv7 } from 'uuid';
import type { Queries } from '../storage/database.js';
import type { JsonObject } from '../storage/json.js';

export interface StandingProposal {
  readonly workflow: string;
  readonly workflowVersion: number;
  readonly plans: JsonObject;
  readonly rowsPerRequest: number;
  readonly drift: number;
  readonly requestsPerDay: number;
  readonly expiresAt: Date;
  readonly proposedBy: string;
}

/** Returns its id. */
export async function proposeStandingApproval({ db, t }: Queries, proposal: StandingProposal): Promise<string> {
  const id = uuidv7();
  await sql`
    WITH proposed AS (
      INSERT INTO ${t.standing} (
        id, workflow, workflow_version, plans, rows_per_request, drift, requests_per_day, expires_at, proposed_by)
      VALUES (${id}::uuid, ${proposal.workflow}::text, ${proposal.workflowVersion}::integer,
              ${JSON.stringify(proposal.plans)}::text::jsonb, ${proposal.rowsPerRequest}::bigint, ${proposal.drift}::bigint,
              ${proposal.requestsPerDay}::integer, ${proposal.expiresAt.toISOString()}::timestamptz,
              ${proposal.proposedBy}::text)
    )
    INSERT INTO ${t.events} (event, actor, detail)
    VALUES ('standing_approval_proposed', ${proposal.proposedBy}::text,
            jsonb_build_object('standing_approval_id', ${id}::text))`.execute(db);
  return id;
}
