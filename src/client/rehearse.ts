/** What an operator can make a training run do, checked before anything is claimed (OP-4). */
import type { Workflow } from '../engine/workflow.js';
import { RequestRefusedError } from '../requests/request-error.js';
import { STAGES } from '../workflows/user-deletion/handlers.js';
import { readInventory, WORKFLOW } from '../workflows/user-deletion/inventory.js';
import { userDeletion } from '../workflows/user-deletion/workflow.js';
import type { ShownRequest } from './record.js';

export interface Faults {
  /** Communities that are to report no agents. */
  readonly noAgentsIn: readonly string[];
  /** The stage that is to fail; null for none. */
  readonly failStage: string | null;
  /** How long every stage takes, in milliseconds. */
  readonly stageDelayMs: number;
}

/**
 * The training workflow with these faults, for `DeletionRecord.run`.
 * @throws RequestRefusedError WRONG_WORKFLOW, UNKNOWN_STAGE or UNKNOWN_COMMUNITY.
 */
export function rehearse({ request, inventories }: ShownRequest, faults: Faults): Workflow {
  if (request.workflow !== WORKFLOW) {
    throw new RequestRefusedError(
      'WRONG_WORKFLOW',
      `Request ${request.id} is of workflow ${request.workflow}, and only training requests can be told to fail: run it without the fault flags.`,
      request.id,
    );
  }
  const { failStage, stageDelayMs } = faults;
  if (failStage !== null && !(STAGES as readonly string[]).includes(failStage)) {
    throw new RequestRefusedError(
      'UNKNOWN_STAGE',
      `--fail-stage names no stage of ${WORKFLOW}: give one of ${STAGES.join(', ')}.`,
      request.id,
    );
  }
  const current = inventories.find(({ inventory_digest }) => inventory_digest === request.inventory_digest);
  const known =
    current === undefined ? [] : readInventory(current.inventory, request.id).communities.map(({ id }) => id);
  const noAgentsIn = faults.noAgentsIn.map((id) => id.toLowerCase());
  if (noAgentsIn.some((id) => !known.includes(id))) {
    throw new RequestRefusedError(
      'UNKNOWN_COMMUNITY',
      `--demo-no-agents-in names no community of request ${request.id}: give one of ${known.join(', ')}.`,
      request.id,
    );
  }
  return userDeletion({ noAgentsIn: new Set(noAgentsIn), failStage, stageDelayMs });
}
