/** A standing approval, for people. */
import type { StandingApproval } from '../requests/read-standing-approvals.js';
import { moment, pairs } from './table.js';

export function standingLines(it: StandingApproval): string {
  return pairs([
    ['standing approval', it.id],
    ['state', it.state],
    ['workflow', `${it.workflow} ${it.workflow_version}`],
    ['targets', Object.keys(it.plans).join(', ')],
    ['rows a request', String(it.rows_per_request)],
    ['growth of a place', String(it.drift)],
    ['requests a day', String(it.requests_per_day)],
    ['expires', moment(it.expires_at)],
    ['proposed by', it.proposed_by],
    ['approved by', it.approved_by.join(', ')],
    ['revoked by', it.revoked_by],
  ]);
}
