/** What the configured targets would do now, as a standing approval holds it (WF-8). */
import { TargetDeclarationError } from '../../targets/target-error.js';
import type { JsonObject } from '../../storage/json.js';
import { callTarget } from './call-target.js';
import type { ErasureDependencies } from './dependencies.js';
import { presentPlan } from './inventory.js';

/** By target: its plan digest, and its places with what is done there. @throws TargetError where one does not answer. */
export async function presentPlans(
  { targets, settings }: Pick<ErasureDependencies, 'targets' | 'settings'>,
  signal: AbortSignal,
): Promise<JsonObject> {
  const plans: Record<string, JsonObject> = {};
  for (const [name, declaration] of Object.entries(settings.targets)) {
    const places = await callTarget(name, signal, (limit) => targets.get(name).describe(limit));
    plans[name] = {
      plan_digest: presentPlan(declaration),
      places: Object.fromEntries(places.map(({ place, action }) => [place, action])),
    };
  }
  if (Object.keys(plans).length > 0) return plans;
  throw new TargetDeclarationError('No target is declared: there is nothing that a standing approval could be for.', {
    target: 'none',
  });
}
