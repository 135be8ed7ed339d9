/** What was there before the first delete: saved once per target, and what every receipt counts from (WF-20). */
import { z } from 'zod';
import type { StageRun } from '../../engine/workflow.js';
import type { JsonObject } from '../../storage/json.js';
import type { CountedTarget } from './inventory.js';

const schema = z.strictObject({
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

export type EraseIntent = z.infer<typeof schema>;

export function newEraseIntent({ counts }: CountedTarget): JsonObject {
  return {
    places: counts.map(({ place, matched, retained, retainedUntil, parentless }) => ({
      place,
      matched,
      retained,
      retained_until: retainedUntil,
      parentless,
    })),
  };
}

/** The intent of the first visit; null before it. */
export function eraseIntentOf({ stage, history }: StageRun, target: string): EraseIntent | null {
  const earlier = history.find(
    (record) => record.stage === 'erase' && record.place === target && record.intent !== undefined,
  );
  const own = stage.stage === 'erase' ? stage.metadata_json.intent : undefined;
  const saved = earlier?.intent ?? own;
  return saved === undefined ? null : schema.parse(saved);
}
