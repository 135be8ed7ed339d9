/**
 * Ends sessions and tokens of one target, before anything is erased anywhere (WF-13). What is ended here is gone before the
 * erase counts, so that it is counted here, before and after, for the receipt (WF-20).
 */
import type { Handler, HandlerContext } from '../../engine/workflow.js';
import { TargetError } from '../../targets/target-error.js';
import { answerFor, answersOrFault, callTarget } from './call-target.js';
import { batchOf, countTargets } from './count-targets.js';
import type { ErasureDependencies } from './dependencies.js';
import { newEraseIntent, revokeIntentOf } from './erase-intent.js';
import { countSubject, gateTargets } from './gating.js';
import type { CountedTarget } from './inventory.js';
import { StageBatch } from './stage-batch.js';
import { visitedTarget } from './visited-target.js';

export function revokeHandler(deps: ErasureDependencies): Handler {
  return async (runs, context) => {
    const batch = await StageBatch.open(runs, deps);
    const name = visitedTarget(runs);
    await begin(deps, batch, name, context);
    await revoke(deps, batch, name, context);
    await finish(deps, batch, name, context);
    return { outcomes: batch.outcomes };
  };
}

/**
 * Of a target that did not answer in the gate, this is the first visit: what others need of it is resolved and sealed before
 * its first row goes (WF-17). Its count is saved once, however many visits it takes.
 */
async function begin(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  context: HandlerContext,
): Promise<void> {
  const starting = new Set(batch.live.filter(({ run }) => revokeIntentOf(run, name) === null).map(({ id }) => id));
  if (starting.size === 0) return;
  const counted = await gateTargets(deps, batch, [name], context);
  const intents = new Map<string, { intent: ReturnType<typeof newEraseIntent> }>();
  for (const open of batch.live) {
    const found = counted.get(open.id)?.get(name);
    if (found instanceof TargetError) batch.fail(open, found);
    else if (found !== undefined && starting.has(open.id)) intents.set(open.id, { intent: newEraseIntent(found) });
  }
  const saved = await context.save(intents);
  batch.keep(new Set(batch.live.map(({ id }) => id).filter((id) => !intents.has(id) || saved.has(id))));
  for (const [id, progress] of intents) batch.remember(id, progress);
}

async function revoke(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  { signal }: HandlerContext,
): Promise<void> {
  const target = deps.targets.get(name);
  const { batch: subjects, waiting } = batchOf(
    deps.targets,
    name,
    new Map(batch.live.map((open) => [open.id, countSubject(open)])),
  );
  const answers = await answersOrFault(subjects, () =>
    callTarget(name, signal, (limit) => target.revoke?.(subjects, limit) ?? Promise.resolve(new Map())),
  );
  for (const open of batch.live) {
    const answer = waiting.get(open.id) ?? answerFor(name, open.id, answers);
    if (answer instanceof TargetError) batch.fail(open, answer);
  }
}

async function finish(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  { signal }: HandlerContext,
): Promise<void> {
  const subjects = new Map(batch.live.map((open) => [open.id, countSubject(open)]));
  const left = await countTargets(deps.targets, [name], subjects, signal);
  for (const open of batch.live) {
    const found = left.get(open.id)?.get(name);
    if (found instanceof TargetError) batch.fail(open, found);
    else
      batch.finish(open.id, {
        kind: 'completed',
        result: { state: 'done', revoked: goneSince(open.run, name, found) },
      });
  }
}

/** What went by place, as the count before minus the count after. Rows that came meanwhile are the erase's to count. */
function goneSince(
  run: Parameters<typeof revokeIntentOf>[0],
  name: string,
  found: CountedTarget | undefined,
): { readonly place: string; readonly rows: number }[] {
  const left = new Map(found?.counts.map(({ place, matched }) => [place, matched]));
  return (revokeIntentOf(run, name)?.places ?? [])
    .map(({ place, matched }) => ({ place, rows: matched - (left.get(place) ?? matched) }))
    .filter(({ rows }) => rows > 0);
}
