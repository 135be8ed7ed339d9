/**
 * Ends sessions and tokens of one target, before anything is erased anywhere (WF-13). What is ended here is gone before the
 * erase counts, so that it is counted here, before and after, for the receipt (WF-20).
 */
import type { Handler, HandlerContext } from '../../engine/workflow.js';
import { TargetError } from '../../targets/target-error.js';
import type { Answers } from '../../targets/target.js';
import { beginVisits } from './begin-visit.js';
import { answerFor, answersOrFault, callTarget } from './call-target.js';
import { batchOf, countTargets } from './count-targets.js';
import type { ErasureDependencies } from './dependencies.js';
import { newEraseIntent, revokeIntentOf } from './erase-intent.js';
import { countSubject } from './gating.js';
import { approvedTarget, type CountedTarget } from './inventory.js';
import { requireMarks } from './marks.js';
import { type OpenRun, StageBatch } from './stage-batch.js';
import { visitedTarget } from './visited-target.js';

export function revokeHandler(deps: ErasureDependencies): Handler {
  return async (runs, context) => {
    const batch = await StageBatch.open(runs, deps);
    const name = visitedTarget(runs);
    // The sessions that are there may be a newer generation's: they are left alone.
    const superseded = await requireMarks(deps, batch, (marks) => deps.registry.check(marks));
    for (const open of superseded) finish(batch, open, name, []);
    // Of a target that did not answer in the gate, this is the first visit.
    await beginVisits(deps, batch, name, context, {
      saved: ({ run }) => revokeIntentOf(run, name),
      fresh: (_open, planDigest, found) => newEraseIntent(planDigest, found),
    });
    await revoke(deps, batch, name, context);
    await countWhatWent(deps, batch, name, context);
    return { outcomes: batch.outcomes };
  };
}

async function revoke(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  context: HandlerContext,
): Promise<void> {
  const target = deps.targets.get(name);
  const owned = batch.live.filter(({ id }) => context.owns(id));
  const { batch: subjects, waiting } = batchOf(
    deps.targets,
    name,
    new Map(owned.map((open) => [open.id, countSubject(open)])),
  );
  batch.keepOf(batch.live, new Set(owned.map(({ id }) => id)));
  if (owned.length === 0) return;
  const answers = await answersOrFault(subjects, () =>
    callTarget<Answers<Revoked>>(
      name,
      context.signal,
      async (limit) => (await target.revoke?.(subjects, limit)) ?? new Map<string, never>(),
    ),
  );
  for (const open of owned) {
    const answer = waiting.get(open.id) ?? answerFor(name, open.id, answers);
    if (answer instanceof TargetError) batch.fail(open, answer);
  }
}

async function countWhatWent(
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
    else finish(batch, open, name, goneSince(open.run, name, found));
  }
}

type Revoked = readonly { readonly place: string; readonly rows: number }[];

function finish(batch: StageBatch, { id, run }: OpenRun, name: string, revoked: Revoked): void {
  const { plan_digest } = approvedTarget(run, name);
  const places = revoked.map(({ place, rows }) => ({ place, rows }));
  batch.finish(id, { kind: 'completed', result: { state: 'done', plan_digest, revoked: places } });
}

/** What went by place, as the count before minus the count after. Rows that came meanwhile are the erase's to count. */
function goneSince(run: OpenRun['run'], name: string, found: CountedTarget | undefined): Revoked {
  const left = new Map(found?.counts.map(({ place, matched }) => [place, matched]));
  return (revokeIntentOf(run, name)?.places ?? [])
    .map(({ place, matched }) => ({ place, rows: matched - (left.get(place) ?? matched) }))
    .filter(({ rows }) => rows > 0);
}
