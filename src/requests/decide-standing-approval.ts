/** One person's consent to a standing approval, or its end (WF-8). Append-only: what was decided stays. */
import { sql } from 'kysely';
import { v7 as uuidv7 } from 'uuid';
import type { Queries } from '../storage/database.js';
import { isSameOperator } from './operator.js';
import { readStandingApprovals, type StandingApproval } from './read-standing-approvals.js';
import { RequestRefusedError } from './request-error.js';

export interface StandingDecision {
  readonly id: string;
  readonly decision: 'approve' | 'revoke';
  readonly decidedBy: string;
}

/**
 * The answer is the policy as it is afterwards. Call it inside a transaction.
 * @throws RequestRefusedError UNKNOWN_REQUEST, WRONG_STATUS where it is expired or revoked, ALREADY_APPROVED_BY.
 */
export async function decideStandingApproval(
  tx: Queries,
  { id, decision, decidedBy }: StandingDecision,
): Promise<StandingApproval> {
  const before = await readOne(tx, id);
  if (before.state === 'revoked' || before.state === 'expired') {
    throw new RequestRefusedError('WRONG_STATUS', `Standing approval ${id} is ${before.state}: propose a new one.`);
  }
  if (decision === 'approve' && before.approved_by.some((name) => isSameOperator(name, decidedBy))) {
    throw alreadyApproved(id);
  }
  const { rows } = await sql`
    WITH decided AS (
      INSERT INTO ${tx.t.standingDecisions} (id, standing_approval_id, decision, decided_by)
      VALUES (${uuidv7()}::uuid, ${id}::uuid, ${decision}::text, ${decidedBy}::text)
      ON CONFLICT DO NOTHING
      RETURNING decision
    )
    INSERT INTO ${tx.t.events} (event, actor, detail)
    SELECT CASE decision WHEN 'approve' THEN 'standing_approval_approved' ELSE 'standing_approval_revoked' END,
           ${decidedBy}::text, jsonb_build_object('standing_approval_id', ${id}::text)
      FROM decided
    RETURNING 1`.execute(tx.db);
  if (rows.length === 0 && decision === 'approve') throw alreadyApproved(id);
  return readOne(tx, id);
}

async function readOne(tx: Queries, id: string): Promise<StandingApproval> {
  const [found] = await readStandingApprovals(tx, id);
  if (found !== undefined) return found;
  throw new RequestRefusedError(
    'UNKNOWN_REQUEST',
    `There is no standing approval ${id}: expunge standing-approvals list shows those that exist.`,
  );
}

function alreadyApproved(id: string): RequestRefusedError {
  return new RequestRefusedError(
    'ALREADY_APPROVED_BY',
    `Standing approval ${id} was approved by this person already: it needs two different ones.`,
  );
}
