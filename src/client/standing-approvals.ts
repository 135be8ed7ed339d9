/** What people do with approvals that stand for requests to come (WF-8). What they apply to is the database's to say. */
import type { ErasureDependencies } from '../workflows/erasure/dependencies.js';
import { WORKFLOW, WORKFLOW_VERSION } from '../workflows/erasure/inventory.js';
import { presentPlans } from '../workflows/erasure/present-plans.js';
import { decideStandingApproval, type StandingDecision } from '../requests/decide-standing-approval.js';
import { operatorName } from '../requests/operator.js';
import { proposeStandingApproval } from '../requests/propose-standing-approval.js';
import { readStandingApprovals, type StandingApproval } from '../requests/read-standing-approvals.js';
import { RequestRefusedError } from '../requests/request-error.js';
import { recordRefusal } from './refusals.js';
import { requestIdOf } from './request-id.js';

export interface StandingProposalInput {
  readonly proposedBy: string;
  /** Copies that one request may count; at least 0. */
  readonly rowsPerRequest: number;
  /** Requests that it may approve in any 24 hours; at least 1. */
  readonly requestsPerDay: number;
  readonly expiresAt: Date;
}

export class StandingApprovals {
  readonly #deps: ErasureDependencies;

  constructor(deps: ErasureDependencies) {
    this.#deps = deps;
  }

  /**
   * Proposes one for the targets, plans and places that are configured now, which are asked for. It approves nothing before two
   * different people have approved it.
   * @throws TargetError where a target does not answer; RequestRefusedError INVALID_OPERATOR, INVALID_ORDER.
   */
  async propose(input: StandingProposalInput): Promise<StandingApproval> {
    const { database, settings } = this.#deps;
    const proposedBy = operatorName('--by', input.proposedBy);
    return recordRefusal(database, null, proposedBy, async () => {
      requireUsable(input);
      const id = await proposeStandingApproval(database, {
        workflow: WORKFLOW,
        workflowVersion: WORKFLOW_VERSION,
        plans: await presentPlans(this.#deps, new AbortController().signal),
        rowsPerRequest: input.rowsPerRequest,
        drift: settings.bounds.drift,
        requestsPerDay: input.requestsPerDay,
        expiresAt: input.expiresAt,
        proposedBy,
      });
      return (await readStandingApprovals(database, id))[0] as StandingApproval;
    });
  }

  /** @throws RequestRefusedError UNKNOWN_REQUEST, WRONG_STATUS, ALREADY_APPROVED_BY, INVALID_OPERATOR */
  approve(id: string, by: string): Promise<StandingApproval> {
    return this.#decide(id, 'approve', by);
  }

  /** Ends it at once, for every request that it has not approved yet. One person is enough. @throws as `approve` */
  revoke(id: string, by: string): Promise<StandingApproval> {
    return this.#decide(id, 'revoke', by);
  }

  list(): Promise<readonly StandingApproval[]> {
    return readStandingApprovals(this.#deps.database);
  }

  #decide(id: string, decision: StandingDecision['decision'], by: string): Promise<StandingApproval> {
    const { database } = this.#deps;
    const order = { id: requestIdOf(id), decision, decidedBy: operatorName('--by', by) };
    return recordRefusal(database, null, order.decidedBy, () =>
      database.transaction((tx) => decideStandingApproval(tx, order)),
    );
  }
}

/** The database's own checks are the second line. */
function requireUsable({ rowsPerRequest, requestsPerDay, expiresAt }: StandingProposalInput): void {
  const fits =
    Number.isSafeInteger(rowsPerRequest) &&
    rowsPerRequest >= 0 &&
    Number.isSafeInteger(requestsPerDay) &&
    requestsPerDay > 0 &&
    expiresAt.getTime() > Date.now();
  if (fits) return;
  throw new RequestRefusedError(
    'INVALID_ORDER',
    'A standing approval needs whole numbers of rows and of requests a day, and an expiry that is still to come.',
  );
}
