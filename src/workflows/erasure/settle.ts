/** Looks again, after the longest message age: what came back is erased and counted (WF-27). */
import { z } from 'zod';
import type { Handler, HandlerContext, StageRun } from '../../engine/workflow.js';
import { TargetError, TargetFailedError } from '../../targets/target-error.js';
import { countTargets } from './count-targets.js';
import { isErased } from './coverage.js';
import type { ErasureDependencies } from './dependencies.js';
import { eraseInSlices } from './erase-slices.js';
import { countSubject } from './gating.js';
import { approvedTarget } from './inventory.js';
import { requireMarks } from './marks.js';
import { type OpenRun, StageBatch } from './stage-batch.js';

/** How much has come back at most: saved before it is erased, so that no crash takes it out of the receipt. */
const intentSchema = z.strictObject({ returned: z.int().min(0) });

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
  // A revision may have added a target since this was decided.
  for (const { id, run } of batch.live) {
    if (!isErased(run.history, run.inventory)) batch.finish(id, { kind: 'completed', result: { state: 'open' } });
  }
  await requireMarks(deps, batch, (marks) => deps.registry.markErased(marks));
  for (const { id } of batch.live) batch.finish(id, { kind: 'completed', result: { state: 'done' } });
}

async function visit(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  context: HandlerContext,
): Promise<void> {
  // What is there belongs to a newer generation.
  const leave = (opens: readonly OpenRun[]): void => {
    for (const open of opens) finish(deps, batch, open, name, { superseded: true });
  };
  leave(await requireMarks(deps, batch, (marks) => deps.registry.check(marks)));
  const returned = await findReturned(deps, batch, name, context);
  // In progress again while it is erased, so that no sign-up slips in between. One that did already is left in peace.
  leave(await requireMarks(deps, batch, (marks) => deps.registry.reopen(marks)));
  await eraseInSlices(
    deps,
    batch,
    batch.live.filter(({ id }) => (returned.get(id) ?? 0) > 0),
    name,
    context,
  );
  const left = await countAll(deps, batch, batch.live, name, context);
  for (const open of batch.live) {
    const remaining = left.get(open.id) ?? 0;
    if (remaining > 0) batch.fail(open, cameBackAgain(name, remaining));
  }
  await requireMarks(deps, batch, (marks) => deps.registry.markErased(marks));
  for (const open of batch.live) finish(deps, batch, open, name, {});
}

/** Counts, ends the runs where nothing has come back in this visit or an earlier one, and saves how much did. */
async function findReturned(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  context: HandlerContext,
): Promise<ReadonlyMap<string, number>> {
  const found = await countAll(deps, batch, batch.live, name, context);
  const intents = new Map<string, { intent: { returned: number } }>();
  for (const open of batch.live) {
    const now = found.get(open.id) ?? 0;
    const before = returnedBefore(open.run, name);
    if (now === 0 && before === 0) finish(deps, batch, open, name, {});
    else if (now > before) intents.set(open.id, { intent: { returned: now } });
  }
  await batch.save(context, intents);
  return found;
}

/** The most that any visit of this target has found, this one included. */
function returnedBefore({ stage, history }: StageRun, name: string): number {
  const intents = history
    .filter((record) => record.stage === 'settle' && record.place === name && record.intent !== undefined)
    .map(({ intent }) => intent);
  const own = stage.metadata_json.intent;
  const saved = own === undefined ? intents : [...intents, own];
  return Math.max(0, ...saved.map((intent) => intentSchema.parse(intent).returned));
}

function finish(
  deps: ErasureDependencies,
  batch: StageBatch,
  { id, run }: OpenRun,
  name: string,
  more: { readonly superseded?: true },
): void {
  const { plan_digest } = approvedTarget(run, name);
  const resurrections = returnedBefore(run, name);
  if (resurrections > 0) {
    deps.counters.add('expunge_resurrections_total', { target: name }, resurrections);
    deps.log.warn('resurrection_found', { requestId: id, target: name, count: resurrections });
  }
  batch.finish(id, { kind: 'completed', result: { state: 'done', plan_digest, resurrections, ...more } });
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
