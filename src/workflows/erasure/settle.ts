/** Looks again, after the longest message age: what came back is erased and counted (WF-27). */
import type { Handler, HandlerContext } from '../../engine/workflow.js';
import { TargetError, TargetFailedError } from '../../targets/target-error.js';
import { countTargets } from './count-targets.js';
import type { ErasureDependencies } from './dependencies.js';
import { eraseInSlices } from './erase-slices.js';
import { countSubject } from './gating.js';
import { withRegistry } from './marks.js';
import { type OpenRun, StageBatch } from './stage-batch.js';

export function settleHandler(deps: ErasureDependencies): Handler {
  return async (runs, context) => {
    const batch = await StageBatch.open(runs, deps);
    const target = runs[0]?.stage.target_community_id ?? null;
    if (target === null) await markErased(deps, batch);
    else await visit(deps, batch, target, context);
    return { outcomes: batch.outcomes };
  };
}

/** Every erase is verified: from now on the person can sign up again, as the next generation (REG-9). */
async function markErased(deps: ErasureDependencies, batch: StageBatch): Promise<void> {
  const results = await withRegistry(deps, batch, (marks) => deps.registry.markErased(marks));
  for (const { id } of batch.live) {
    if (results.get(id) === 'missing') {
      batch.finish(id, {
        kind: 'failed',
        error: 'TOMBSTONE_MISSING: the registry has no tombstone of this request any more',
        retryable: true,
      });
    } else {
      batch.finish(id, { kind: 'completed', result: { state: 'done' } });
    }
  }
}

async function visit(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  context: HandlerContext,
): Promise<void> {
  const back = await findReturned(deps, batch, name, context);
  if (back.size === 0) return;
  // In progress again while it is erased, so that no sign-up slips in between. One that did already is left in peace.
  const reopened = await withRegistry(deps, batch, (marks) => deps.registry.reopen(marks));
  for (const { id } of batch.live) if (reopened.get(id) === 'superseded') leave(batch, id);
  const erasing = batch.live;
  await eraseInSlices(deps, batch, erasing, name, context);
  const left = await countAll(deps, batch, batch.live, name, context);
  for (const open of batch.live) {
    const remaining = left.get(open.id) ?? 0;
    if (remaining > 0) batch.fail(open, cameBackAgain(name, remaining));
  }
  await withRegistry(deps, batch, (marks) => deps.registry.markErased(marks));
  for (const { id } of batch.live) {
    const resurrections = back.get(id) ?? 0;
    deps.counters.add('expunge_resurrections_total', { target: name }, resurrections);
    deps.log.warn('resurrection_found', { requestId: id, target: name, count: resurrections });
    batch.finish(id, { kind: 'completed', result: { state: 'done', resurrections } });
  }
}

/** Counts, and ends the runs where nothing came back. Returns how much did, for the others. */
async function findReturned(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  context: HandlerContext,
): Promise<ReadonlyMap<string, number>> {
  const standing = await withRegistry(deps, batch, (marks) => deps.registry.check(marks));
  for (const { id } of batch.live) if (standing.get(id) === 'superseded') leave(batch, id);
  const found = await countAll(deps, batch, batch.live, name, context);
  for (const { id } of batch.live) {
    if (found.get(id) === 0) batch.finish(id, { kind: 'completed', result: { state: 'done', resurrections: 0 } });
  }
  return found;
}

/** What is there belongs to a newer generation. */
function leave(batch: StageBatch, id: string): void {
  batch.finish(id, { kind: 'completed', result: { state: 'done', resurrections: 0, superseded: true } });
}

async function countAll(
  deps: ErasureDependencies,
  batch: StageBatch,
  opens: readonly OpenRun[],
  name: string,
  context: HandlerContext,
): Promise<ReadonlyMap<string, number>> {
  if (opens.length === 0) return new Map();
  const subjects = new Map(opens.map((open) => [open.id, countSubject(open)]));
  const answers = await countTargets(deps.targets, [name], subjects, context.signal);
  const counts = new Map<string, number>();
  for (const open of opens) {
    const found = answers.get(open.id)?.get(name);
    if (found instanceof TargetError) batch.fail(open, found);
    else counts.set(open.id, found?.counts.reduce((sum, { matched }) => sum + matched, 0) ?? 0);
  }
  return counts;
}

function cameBackAgain(name: string, left: number): TargetError {
  return new TargetFailedError(
    `Target ${name} still holds ${left} copies that came back after the deletion: look for what writes them.`,
    {
      target: name,
      cause: 'LEFT_BEHIND',
    },
  );
}
