/** Approvals that stand for requests to come, with what people decided about them (WF-8). */
import { sql } from 'kysely';
import type { Queries } from '../storage/database.js';
import type { JsonObject } from '../storage/json.js';

export interface StandingApproval {
  readonly id: string;
  readonly workflow: string;
  readonly workflow_version: number;
  /** By target: its plan digest, and its places with what is done there. */
  readonly plans: JsonObject;
  readonly rows_per_request: number;
  readonly drift: number;
  readonly requests_per_day: number;
  readonly expires_at: Date;
  readonly proposed_by: string;
  readonly proposed_at: Date;
  /** Two different people have to approve it; then it is `active` until it expires or somebody revokes it. */
  readonly state: 'proposed' | 'active' | 'expired' | 'revoked';
  readonly approved_by: readonly string[];
  readonly revoked_by: string | null;
  /** Requests that it approved, in all and in the last 24 hours. */
  readonly approved: number;
  readonly approved_today: number;
}

/** Newest first. @param id - only this one; null for all. */
export async function readStandingApprovals(
  { db, t }: Queries,
  id: string | null = null,
): Promise<readonly StandingApproval[]> {
  const { rows } = await sql<StandingApproval>`
    SELECT p.id, p.workflow, p.workflow_version, p.plans, p.rows_per_request, p.drift, p.requests_per_day, p.expires_at,
           p.proposed_by, p.proposed_at,
           CASE WHEN d.revoked_by IS NOT NULL THEN 'revoked' WHEN p.expires_at <= clock_timestamp() THEN 'expired'
                WHEN d.signers >= 2 THEN 'active' ELSE 'proposed' END AS state,
           d.approved_by, d.revoked_by, u.approved, u.approved_today
      FROM ${t.standing} p
     CROSS JOIN LATERAL (
           SELECT coalesce(jsonb_agg(s.decided_by ORDER BY s.decided_at, s.id)
                           FILTER (WHERE s.decision = 'approve'), '[]') AS approved_by,
                  count(DISTINCT lower(normalize(btrim(s.decided_by)))) FILTER (WHERE s.decision = 'approve') AS signers,
                  min(s.decided_by) FILTER (WHERE s.decision = 'revoke') AS revoked_by
             FROM ${t.standingDecisions} s WHERE s.standing_approval_id = p.id) d
     CROSS JOIN LATERAL (
           SELECT count(DISTINCT a.request_id)::integer AS approved,
                  (count(DISTINCT a.request_id) FILTER (
                     WHERE a.approved_at > clock_timestamp() - interval '24 hours'))::integer AS approved_today
             FROM ${t.approvals} a WHERE a.standing_approval_id = p.id) u
     WHERE ${id}::uuid IS NULL OR p.id = ${id}::uuid
     ORDER BY p.proposed_at DESC, p.id DESC`.execute(db);
  return rows;
}
