/** The gate: the tombstone before the first delete, and what was approved compared with what is there (WF-7, WF-24). */
import type { Handler, HandlerContext, Outcome, StageRun } from '../../engine/workflow.js';
import { readClock } from '../../requests/clock.js';
import { countFreshApprovals } from '../../requests/read.js';
import { TargetError } from '../../targets/target-error.js';
import type { CountAnswers } from './count-targets.js';
import type { ErasureDependencies } from './dependencies.js';
import { approvedTarget, driftOf, gateTargets } from './gating.js';
import { digestOf, type ErasureInventory, inventoryTarget, requireWithinBounds } from './inventory.js';
import { gateIntentOf, newGateIntent, referencesOf, withRegistry } from './marks.js';
import { type OpenRun, StageBatch } from './stage-batch.js';

export function gateHandler(deps: ErasureDependencies): Handler {
  return async (runs, context) => {
    const batch = await StageBatch.open(runs, deps);
    await reviseOldApprovals(deps, batch, context);
    await begin(deps, batch, context);
    await writeTombstones(deps, batch);
    const names = deps.targets.inGateOrder;
    const answers = await gateTargets(deps, batch, names, context);
    const now = await readClock(deps.database);
    for (const open of batch.live)
      batch.finish(open.id, verdict(deps, open, answers.get(open.id) as CountAnswers, now));
    return { outcomes: batch.outcomes };
  };
}

/** An approval that is too old when the gate begins is no approval: nothing is locked, and a fresh count waits for one. */
async function reviseOldApprovals(
  deps: ErasureDependencies,
  batch: StageBatch,
  context: HandlerContext,
): Promise<void> {
  const starting = batch.live.filter(({ run }) => gateIntentOf(run) === null);
  const fresh = await countFreshApprovals(
    deps.database,
    starting.map(({ id }) => id),
    deps.settings.approvalsExpireAfter,
  );
  const stale = starting.filter(({ id, run }) => (fresh.get(id) ?? 0) < run.request.approvals_required);
  if (stale.length === 0) return;
  const expired = new Set(stale.map(({ id }) => id));
  const part = await StageBatch.open(
    stale.map(({ run }) => run),
    deps,
  );
  const answers = await gateTargets(deps, part, deps.targets.inGateOrder, context);
  const now = await readClock(deps.database);
  for (const open of batch.live) {
    if (!expired.has(open.id)) continue;
    const counted = answers.get(open.id);
    if (counted !== undefined)
      batch.finish(
        open.id,
        revised(deps, open, counted, now, 'APPROVAL_EXPIRED: the approval is older than approvals.expireAfter'),
      );
  }
}

/** Saves the generation before it is used. */
async function begin(deps: ErasureDependencies, batch: StageBatch, context: HandlerContext): Promise<void> {
  const starting = batch.live.filter(({ run }) => gateIntentOf(run) === null);
  if (starting.length === 0) return;
  const generations = await deps.registry.proposeGenerations(
    new Map(starting.map((open) => [open.id, referencesOf(deps, open)])),
  );
  const intents = new Map(starting.map(({ id }) => [id, newGateIntent(generations.get(id) as number)]));
  const saved = await context.save(new Map([...intents].map(([id, intent]) => [id, { intent }])));
  batch.keep(new Set([...batch.live.filter(({ id }) => !intents.has(id)).map(({ id }) => id), ...saved]));
  for (const [id, intent] of intents) batch.remember(id, { intent });
}

async function writeTombstones(deps: ErasureDependencies, batch: StageBatch): Promise<void> {
  const results = await withRegistry(deps, batch, (marks) => deps.registry.mark(marks));
  for (const { id } of batch.live) {
    if (results.get(id) !== 'marked') {
      batch.finish(id, {
        kind: 'failed',
        error: 'SUPERSEDED: the subject has a newer generation in the registry than this request would delete',
        retryable: false,
      });
    }
  }
}

function verdict(deps: ErasureDependencies, open: OpenRun, answers: CountAnswers, now: Date): Outcome {
  const { run } = open;
  const drifted = [...answers].flatMap(([name, answer]) =>
    answer instanceof TargetError || isBegun(run, name)
      ? []
      : driftOf(approvedTarget(run, name), answer, deps.settings.bounds.drift).map((place) => `${name}.${place}`),
  );
  if (drifted.length > 0) {
    return revised(deps, open, answers, now, `DRIFT: more is there than was approved, in ${drifted.join(', ')}`);
  }
  const targets = Object.fromEntries(
    [...answers].map(([name, answer]) => [
      name,
      answer instanceof TargetError ? { gated: false, why: answer.message } : { gated: true },
    ]),
  );
  return { kind: 'completed', result: { state: 'done', inventory_digest: run.request.inventory_digest, targets } };
}

/** Fresh counts for what answered and is not being erased yet; everything else stays as it was approved. */
function revised(
  deps: ErasureDependencies,
  { id, run }: OpenRun,
  answers: CountAnswers,
  now: Date,
  why: string,
): Outcome {
  const before = run.inventory as unknown as ErasureInventory;
  const targets = before.targets.map((target) => {
    const answer = answers.get(target.name);
    const isFresh = answer !== undefined && !(answer instanceof TargetError) && !isBegun(run, target.name);
    return isFresh ? inventoryTarget(deps.settings, target.name, answer) : target;
  });
  requireWithinBounds(targets, deps.settings.bounds.rows);
  const inventory: ErasureInventory = { ...before, targets, counted_at: now.toISOString() };
  return { kind: 'revised', why, inventory, inventoryDigest: digestOf(inventory, id) };
}

function isBegun({ history }: StageRun, target: string): boolean {
  return history.some((record) => record.stage === 'erase' && record.place === target && record.intent !== undefined);
}
