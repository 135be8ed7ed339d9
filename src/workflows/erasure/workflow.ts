/** The erasure workflow, version 1: one person, every declared store, verified (workflow.md, WF). */
import type { Workflow } from '../../engine/workflow.js';
import type { ErasureDependencies } from './dependencies.js';
import { eraseHandler } from './erase.js';
import { gateHandler } from './gate.js';
import { digestOf, readInventory, requireSamePlan, WORKFLOW, WORKFLOW_VERSION } from './inventory.js';
import { erasurePolicy } from './policy.js';
import { prepareErasures } from './prepare.js';
import { revokeHandler } from './revoke.js';
import { endErasures, sealHandler } from './seal.js';
import { settleHandler } from './settle.js';
import { ungateHandler } from './ungate.js';

export function erasure(deps: ErasureDependencies): Workflow {
  return {
    name: WORKFLOW,
    version: WORKFLOW_VERSION,
    runBy: 'worker',
    policy: erasurePolicy,
    handlers: {
      gate: gateHandler(deps),
      revoke: revokeHandler(deps),
      erase: eraseHandler(deps),
      settle: settleHandler(deps),
      seal: sealHandler(deps),
      ungate: ungateHandler(deps),
    },
    prepare: prepareErasures(deps),
    visits: new Set(['revoke', 'erase', 'settle']),
    digest: (request, inventory) => digestOf(inventory, request.id),
    // To undo the gate takes no plan: a plan that has changed may be why it is undone.
    requireRunnable: (request, inventory, stage) => {
      if (stage === 'ungate') return;
      requireSamePlan(deps.settings, readInventory(inventory, request.id), request.id);
    },
    end: (tx, endings) => endErasures(tx, endings, deps),
  };
}
