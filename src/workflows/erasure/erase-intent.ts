/** What was there before the first delete: saved once per target, and what every receipt counts from (WF-20). */
import { z } from 'zod';
import type { StageRun } from '../../engine/workflow.js';
import type { JsonObject } from '../../storage/json.js';
import { approvedTarget, type CountedTarget } from './inventory.js';

const schema = z.strictObject({
  /** Under which the places were counted: another plan has other places, and begins anew. */
  plan_digest: z.string(),
  places: z.array(
    z.strictObject({
      place: z.string(),
      matched: z.int().min(0),
      retained: z.int().min(0),
      retained_until: z.string().nullable(),
      parentless: z.int().min(0).nullable(),
    }),
  ),
});
const revokedSchema = z.array(z.strictObject({ place: z.string(), rows: z.int().min(0) }));

export type EraseIntent = z.infer<typeof schema>;

/** @param revoked - what the target's revoke visit ended already, by place: it was there, too, and counts. */
export function newEraseIntent(
  planDigest: string,
  { counts }: CountedTarget,
  revoked: ReadonlyMap<string, number> = new Map(),
): JsonObject {
  return {
    plan_digest: planDigest,
    places: counts.map(({ place, matched, retained, retainedUntil, parentless }) => ({
      place,
      matched: matched + (revoked.get(place) ?? 0),
      retained,
      retained_until: retainedUntil,
      parentless,
    })),
  };
}

/** The intent of the first erase visit under the present plan; null before it. */
export function eraseIntentOf(run: StageRun, target: string): EraseIntent | null {
  return intentOf(run, 'erase', target);
}

/** The intent of the first revoke visit under the present plan; null before it, and where the target has none. */
export function revokeIntentOf(run: StageRun, target: string): EraseIntent | null {
  return intentOf(run, 'revoke', target);
}

function intentOf(run: StageRun, kind: 'erase' | 'revoke', target: string): EraseIntent | null {
  const { stage, history } = run;
  const earlier = history.flatMap((record) =>
    record.stage === kind && record.place === target && record.intent !== undefined ? [record.intent] : [],
  );
  const own = stage.stage === kind && stage.metadata_json.intent !== undefined ? [stage.metadata_json.intent] : [];
  const { plan_digest } = approvedTarget(run, target);
  const intents = [...earlier, ...own].map((intent) => schema.parse(intent));
  return intents.find((intent) => intent.plan_digest === plan_digest) ?? null;
}

/** What the revoke visit of a target ended, by place. */
export function revokedBefore({ history }: StageRun, target: string): ReadonlyMap<string, number> {
  const done = history.findLast(
    ({ stage, place, result }) => stage === 'revoke' && place === target && result?.['state'] === 'done',
  );
  const revoked = revokedSchema.parse(done?.result?.['revoked'] ?? []);
  return new Map(revoked.map(({ place, rows }) => [place, rows]));
}
