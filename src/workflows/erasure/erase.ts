/** One visit to one target: count, erase, count again on another connection, and only then a receipt (WF-18 to WF-20). */
import type { Handler, HandlerContext, Outcome } from '../../engine/workflow.js';
import { insertReceipts, type ReceiptRow } from '../../requests/receipts.js';
import { TargetError, TargetFailedError } from '../../targets/target-error.js';
import type { Cleanup } from '../../targets/target.js';
import { countTargets } from './count-targets.js';
import type { ErasureDependencies } from './dependencies.js';
import { eraseInSlices } from './erase-slices.js';
import { type EraseIntent, eraseIntentOf, newEraseIntent, revokedBefore, revokeIntentOf } from './erase-intent.js';
import { approvedTarget, countSubject, driftOf, gateTargets, isGated } from './gating.js';
import type { CountedTarget } from './inventory.js';
import { withRegistry } from './marks.js';
import { signTargetReceipts, type VerifiedTarget } from './target-receipts.js';
import { type OpenRun, StageBatch } from './stage-batch.js';
import { visitedTarget } from './visited-target.js';

export function eraseHandler(deps: ErasureDependencies): Handler {
  return async (runs, context) => {
    const name = visitedTarget(runs);
    const batch = await StageBatch.open(runs, deps);
    const verified: VerifiedTarget[] = [...(await passSuperseded(deps, batch, name, context))];
    await gateLate(deps, batch, name, context);
    await saveIntents(deps, batch, name, context);
    await eraseInSlices(deps, batch, batch.live, name, context);
    verified.push(...(await verify(deps, batch, name, context)));
    const receipts = await signTargetReceipts(deps, name, verified);
    for (const { open, places } of verified) batch.finish(open.id, done(receipts.get(open.id) as ReceiptRow, places));
    return {
      outcomes: batch.outcomes,
      commit: (tx, saved) =>
        insertReceipts(
          tx,
          [...receipts.values()].filter(({ request_id }) => saved.has(request_id)),
        ),
    };
  };
}

function done(receipt: ReceiptRow, places: VerifiedTarget['places']): Outcome {
  const counts = places.map(({ place, action, counted, retained, superseded }) => ({
    place,
    action,
    counted,
    retained,
    superseded,
  }));
  return { kind: 'completed', result: { state: 'done', receipt_id: receipt.id, places: counts } };
}

/**
 * Reads the registry again before anything is destroyed. Where the subject has a newer generation, everything that is there
 * may be theirs: nothing is touched, and it is reported as superseded.
 */
async function passSuperseded(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  context: HandlerContext,
): Promise<readonly VerifiedTarget[]> {
  const results = await withRegistry(deps, batch, (marks) => deps.registry.check(marks));
  const superseded: OpenRun[] = [];
  for (const open of batch.live) {
    const result = results.get(open.id);
    if (result === 'superseded') superseded.push(open);
    else if (result !== 'marked') {
      batch.finish(open.id, {
        kind: 'failed',
        error: 'TOMBSTONE_MISSING: the registry has no tombstone of this request any more',
        retryable: true,
      });
    }
  }
  const counted = await count(deps, batch, superseded, name, context);
  return counted.map(({ open, found }) => {
    const revoked = revokedBefore(open.run, name);
    const places = placesOf(found, ({ place, matched, superseded: newer }) => ({
      counted: revoked.get(place) ?? 0,
      left: 0,
      superseded: matched + newer,
    }));
    return { open, places, cleanup: [] };
  });
}

/** A target that did not answer in the gate is gated now; drift closes the visit, and waits until the others are done. */
async function gateLate(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  context: HandlerContext,
): Promise<void> {
  const late = new Set(batch.live.filter(({ run }) => !isGated(run, name)).map(({ id }) => id));
  if (late.size === 0) return;
  const answers = await gateTargets(deps, batch, [name], context);
  for (const open of batch.live) {
    const answer = answers.get(open.id)?.get(name);
    if (answer === undefined || !late.has(open.id)) continue;
    if (answer instanceof TargetError) batch.fail(open, answer);
    else if (driftOf(approvedTarget(open.run, name), answer, deps.settings.bounds.drift).length > 0) {
      batch.finish(open.id, { kind: 'completed', result: { state: 'drift' } });
    }
  }
}

/** The count of what is there, saved once per target before its first delete, however many visits it takes (WF-20). */
async function saveIntents(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  context: HandlerContext,
): Promise<void> {
  const starting = batch.live.filter(({ run }) => eraseIntentOf(run, name) === null);
  const counted = await count(deps, batch, starting, name, context);
  const intents = new Map(
    counted.map(({ open, found }) => [open.id, { intent: newEraseIntent(found, revokedBefore(open.run, name)) }]),
  );
  if (intents.size === 0) return;
  const saved = await context.save(intents);
  batch.keep(new Set(batch.live.map(({ id }) => id).filter((id) => !intents.has(id) || saved.has(id))));
  for (const [id, progress] of intents) batch.remember(id, progress);
}

async function verify(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  context: HandlerContext,
): Promise<readonly VerifiedTarget[]> {
  const counted = await count(deps, batch, batch.live, name, context);
  const clean: { open: OpenRun; found: CountedTarget; intent: EraseIntent }[] = [];
  for (const { open, found } of counted) {
    const intent = eraseIntentOf(open.run, name);
    if (intent === null) throw new Error(`Request ${open.id} was erased without an intent.`);
    // Rows can have lost their parent in the revoke visit already.
    const fault = leftBehind(name, found, revokeIntentOf(open.run, name) ?? intent);
    if (fault === null) clean.push({ open, found, intent });
    else batch.fail(open, fault);
  }
  const cleanup = await cleanUp(deps, name, clean, context);
  return clean.map(({ open, found, intent }) => ({ open, places: settledPlaces(found, intent), cleanup }));
}

/** Where the independent count is not zero, or rows lost their parent meanwhile (WF-16, WF-19). */
function leftBehind(name: string, found: CountedTarget, intent: EraseIntent): TargetError | null {
  const before = new Map(intent.places.map((place) => [place.place, place]));
  for (const { place, matched, parentless } of found.counts) {
    if (matched > 0) {
      return new TargetFailedError(
        `Target ${name} still holds ${matched} in ${place} after its erase: look for what keeps or restores them.`,
        {
          target: name,
          place,
          cause: 'LEFT_BEHIND',
        },
      );
    }
    const was = before.get(place)?.parentless ?? null;
    if (parentless !== null && was !== null && parentless > was) {
      return new TargetFailedError(
        `Target ${name} has ${parentless - was} more rows without a parent in ${place} than before its erase: they may be the subject's.`,
        { target: name, place, cause: 'PARENTLESS_GREW' },
      );
    }
  }
  return null;
}

/** Kept rows that were reached through a parent cannot be found once it is changed: their count is the intent's. */
function settledPlaces(found: CountedTarget, intent: EraseIntent): VerifiedTarget['places'] {
  const before = new Map(intent.places.map((place) => [place.place, place]));
  return placesOf(found, ({ place, matched }) => {
    const was = before.get(place);
    return {
      counted: was?.matched ?? 0,
      left: matched,
      retained: was?.retained ?? 0,
      retainedUntil: was?.retained_until ?? null,
    };
  });
}

type CountedPlace = CountedTarget['counts'][number];

function placesOf(
  { places, counts }: CountedTarget,
  outcome: (count: CountedPlace) => {
    counted: number;
    left: number;
    superseded?: number;
    retained?: number;
    retainedUntil?: string | null;
  },
): VerifiedTarget['places'] {
  const found = new Map(counts.map((count) => [count.place, count]));
  return places.map(({ place, action, basis }) => {
    const { retained, retainedUntil, superseded, ...count } = found.get(place) as CountedPlace;
    return {
      place,
      action,
      basis,
      retained,
      retainedUntil,
      superseded,
      ...outcome({ retained, retainedUntil, superseded, ...count }),
    };
  });
}

async function count(
  deps: ErasureDependencies,
  batch: StageBatch,
  opens: readonly OpenRun[],
  name: string,
  context: HandlerContext,
): Promise<readonly { readonly open: OpenRun; readonly found: CountedTarget }[]> {
  if (opens.length === 0) return [];
  const subjects = new Map(opens.map((open) => [open.id, countSubject(open)]));
  const answers = await countTargets(deps.targets, [name], subjects, context.signal);
  const counted: { open: OpenRun; found: CountedTarget }[] = [];
  for (const open of opens) {
    const found = answers.get(open.id)?.get(name);
    if (found instanceof TargetError) batch.fail(open, found);
    else if (found !== undefined) counted.push({ open, found });
  }
  return counted;
}

/** Never fails an erase that is verified: what could not be done stands in the receipt (WF-23). */
async function cleanUp(
  deps: ErasureDependencies,
  name: string,
  clean: readonly { readonly intent: EraseIntent }[],
  { signal }: HandlerContext,
): Promise<readonly Cleanup[]> {
  const target = deps.targets.get(name);
  const touched = new Set(
    clean.flatMap(({ intent }) => intent.places.filter(({ matched }) => matched > 0).map(({ place }) => place)),
  );
  if (target.cleanup === undefined || touched.size === 0) return [];
  const places = [...touched];
  try {
    return await target.cleanup(places, signal);
  } catch {
    deps.log.warn('target_cleanup_left', { target: name });
    return places.map((place) => ({ place, did: [], left: ['CLEANUP_FAILED'] }));
  }
}
