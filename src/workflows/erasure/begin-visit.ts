/** What a first visit begins with: what is there is compared with what was approved, and saved as what receipts count from. */
import type { HandlerContext } from '../../engine/workflow.js';
import type { JsonObject } from '../../storage/json.js';
import { TargetError } from '../../targets/target-error.js';
import type { ErasureDependencies } from './dependencies.js';
import { driftOf, gateTargets } from './gating.js';
import { approvedTarget, type CountedTarget } from './inventory.js';
import type { OpenRun, StageBatch } from './stage-batch.js';

/**
 * Gates one target for the runs that have no intent for it yet (WF-17), and saves their intents, once per target and plan,
 * however many visits it takes (WF-20). Drift closes the visit, and waits until the others are done (WF-7).
 */
export async function beginVisits(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  context: HandlerContext,
  intentOf: {
    saved(open: OpenRun): unknown;
    fresh(open: OpenRun, planDigest: string, found: CountedTarget): JsonObject;
  },
): Promise<void> {
  const starting = batch.live.filter((open) => intentOf.saved(open) === null);
  if (starting.length === 0) return;
  const answers = await gateTargets(deps, batch, [name], context, starting);
  const intents = new Map<string, { intent: JsonObject }>();
  for (const { id } of starting) {
    const open = batch.get(id);
    const counted = answers.get(id);
    const found = counted?.get(name);
    if (open === undefined || counted === undefined || found === undefined) continue;
    if (found instanceof TargetError) batch.fail(open, found);
    else if (driftOf(open.run, counted).length > 0) {
      batch.finish(id, { kind: 'completed', result: { state: 'drift' } });
    } else {
      const { plan_digest } = approvedTarget(open.run, name);
      intents.set(id, { intent: intentOf.fresh(open, plan_digest, found) });
    }
  }
  await batch.save(context, intents);
}
