/** The training workflow: the whole engine on real rows, before anything real is at stake (executor.md). */
import type { Workflow } from '../../engine/workflow.js';
import { type Rehearsal, rehearsalHandlers } from './handlers.js';
import { digestOf, WORKFLOW, WORKFLOW_VERSION } from './inventory.js';
import { userDeletionPolicy } from './policy.js';

const PLAIN: Rehearsal = { noAgentsIn: new Set(), failStage: null, stageDelayMs: 0 };

export function userDeletion(rehearsal: Rehearsal = PLAIN): Workflow {
  return {
    name: WORKFLOW,
    version: WORKFLOW_VERSION,
    runBy: 'operator',
    policy: userDeletionPolicy,
    handlers: rehearsalHandlers(rehearsal),
    visits: new Set(),
    digest: (request, inventory) => digestOf(inventory, request.id, request.target),
  };
}
