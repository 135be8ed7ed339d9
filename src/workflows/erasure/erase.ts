/** One visit to one target: count, erase, count again on another connection, and only then a receipt (WF-18 to WF-20). */
import type { Handler, HandlerContext, Outcome } from '../../engine/workflow.js';
import { insertReceipts, type ReceiptRow } from '../../requests/receipts.js';
import { TargetError, TargetFailedError } from '../../targets/target-error.js';
import type { Cleanup } from '../../targets/target.js';
import { beginVisits } from './begin-visit.js';
import { countTargets } from './count-targets.js';
import type { ErasureDependencies } from './dependencies.js';
import { eraseInSlices } from './erase-slices.js';
import { type EraseIntent, eraseIntentOf, newEraseIntent, revokedBefore, revokeIntentOf } from './erase-intent.js';
import { countSubject } from './gating.js';
import { approvedTarget, type CountedTarget } from './inventory.js';
import { requireMarks } from './marks.js';
import { signTargetReceipts, type VerifiedTarget } from './target-receipts.js';
import { type OpenRun, StageBatch } from './stage-batch.js';
import { visitedTarget } from './visited-target.js';

export function eraseHandler(deps: ErasureDependencies): Handler {
  return async (runs, context) => {
    const name = visitedTarget(runs);
    const batch = await StageBatch.open(runs, deps);
    const verified: VerifiedTarget[] = [...(await passSuperseded(deps, batch, name, context))];
    await beginVisits(deps, batch, name, context, {
      saved: ({ run }) => eraseIntentOf(run, name),
      fresh: ({ run }, planDigest, found) => newEraseIntent(planDigest, found, revokedBefore(run, name)),
    });
    await eraseInSlices(deps, batch, batch.live, name, context);
    verified.push(...(await verify(deps, batch, name, context)));
    const receipts = await signTargetReceipts(deps, name, verified);
    for (const one of verified) batch.finish(one.open.id, done(one, name, receipts.get(one.open.id) as ReceiptRow));
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

function done({ open, places }: VerifiedTarget, name: string, receipt: ReceiptRow): Outcome {
  const { plan_digest } = approvedTarget(open.run, name);
  const counts = places.map(({ place, action, counted, retained, superseded }) => ({
    place,
    action,
    counted,
    retained,
    superseded,
  }));
  return { kind: 'completed', result: { state: 'done', plan_digest, receipt_id: receipt.id, places: counts } };
}

/**
 * Reads the registry again before anything is destroyed, and sees to it that nobody is created again meanwhile. Where the
 * subject has a newer generation, everything that is there may be theirs: nothing is touched, and it is reported as superseded.
 */
async function passSuperseded(
  deps: ErasureDependencies,
  batch: StageBatch,
  name: string,
  context: HandlerContext,
): Promise<readonly VerifiedTarget[]> {
  const superseded = await requireMarks(deps, batch, (marks) => deps.registry.reopen(marks));
  batch.setAside(superseded);
  const counted = await count(deps, batch, superseded, name, context);
  return counted.map(({ open, found }) => {
    const before = new Map(eraseIntentOf(open.run, name)?.places.map(({ place, matched }) => [place, matched]));
    const revoked = revokedBefore(open.run, name);
    const places = placesOf(found, ({ place, matched, superseded: newer }) => {
      // Of what was erased before, as much is known to be gone as is not there any more.
      const gone = Math.max(revoked.get(place) ?? 0, (before.get(place) ?? 0) - matched);
      return { counted: gone, left: 0, superseded: matched + newer };
    });
    return { open, places, cleanup: [] };
  });
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
