/** The gate: the tombstone before the first delete, and what was approved compared with what is there (WF-7, WF-24). */
import type { Handler, HandlerContext, Outcome } from '../../engine/workflow.js';
import { describeError } from '../../observe/describe-error.js';
import { readClock } from '../../requests/clock.js';
import { countFreshApprovals } from '../../requests/read.js';
import { TargetError } from '../../targets/target-error.js';
import type { CountAnswers } from './count-targets.js';
import type { ErasureDependencies } from './dependencies.js';
import { driftOf, gateTargets } from './gating.js';
import {
  BoundsExceededError,
  digestOf,
  type ErasureInventory,
  inventoryTarget,
  requireWithinBounds,
} from './inventory.js';
import { gateIntentOf, newGateIntent, proposeGenerations, withRegistry } from './marks.js';
import { type OpenRun, StageBatch } from './stage-batch.js';

export function gateHandler(deps: ErasureDependencies): Handler {
  return async (runs, context) => {
    const batch = await StageBatch.open(runs, deps);
    await reviseOldApprovals(deps, batch, context);
    await begin(deps, batch, context);
    await writeTombstones(deps, batch);
    const answers = await gateTargets(deps, batch, deps.targets.inGateOrder, context);
    const now = await readClock(deps.database);
    for (const open of batch.live) {
      batch.finish(open.id, verdict(deps, open, answers.get(open.id) as CountAnswers, now));
    }
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
  const answers = await gateTargets(deps, batch, deps.targets.inGateOrder, context, stale);
  const now = await readClock(deps.database);
  const why = 'APPROVAL_EXPIRED: the approval is older than approvals.expireAfter';
  for (const { id } of stale) {
    const open = batch.get(id);
    if (open !== undefined) batch.finish(id, revised(deps, open, answers.get(id) as CountAnswers, now, why));
  }
}

/** Saves the generation before it is used. */
async function begin(deps: ErasureDependencies, batch: StageBatch, context: HandlerContext): Promise<void> {
  const starting = batch.live.filter(({ run }) => gateIntentOf(run) === null);
  const generations = await proposeGenerations(deps, batch, starting);
  const intents = [...generations].map(([id, generation]) => [id, { intent: newGateIntent(generation) }] as const);
  await batch.save(context, new Map(intents));
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
  const drifted = driftOf(run, answers);
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

/**
 * Fresh counts, under the present bounds, for what answered and is not being erased yet; everything else stays as it was
 * approved. What exceeds the bounds is for no approval: it blocks (WF-9).
 */
function revised(
  deps: ErasureDependencies,
  { id, run }: OpenRun,
  answers: CountAnswers,
  now: Date,
  why: string,
): Outcome {
  const { settings } = deps;
  const before = run.inventory as unknown as ErasureInventory;
  const targets = before.targets.map((target) => {
    const answer = answers.get(target.name);
    return answer === undefined || answer instanceof TargetError
      ? target
      : inventoryTarget(settings, target.name, answer);
  });
  try {
    requireWithinBounds(targets, settings.bounds.rows);
  } catch (error) {
    if (!(error instanceof BoundsExceededError)) throw error;
    const { code, message } = describeError(error);
    return { kind: 'failed', error: `${code}: ${message}`, retryable: false };
  }
  const bounds = { ...settings.bounds };
  const inventory: ErasureInventory = { ...before, targets, bounds, counted_at: now.toISOString() };
  return { kind: 'revised', why, inventory, inventoryDigest: digestOf(inventory, id) };
}
