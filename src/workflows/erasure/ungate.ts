/** After a cancel: the subject is live again, as the next generation, and every reference given out before is good (REG-9). */
import { z } from 'zod';
import type { Handler } from '../../engine/workflow.js';
import type { ErasureDependencies } from './dependencies.js';
import { referencesOf, withRegistry } from './marks.js';
import { StageBatch } from './stage-batch.js';

const intentSchema = z.strictObject({ live_generation: z.int().positive() });

export function ungateHandler(deps: ErasureDependencies): Handler {
  return async (runs, context) => {
    const batch = await StageBatch.open(runs, deps);
    const starting = batch.live.filter(({ run }) => run.stage.metadata_json.intent === undefined);
    if (starting.length > 0) {
      const proposed = await deps.registry.proposeGenerations(
        new Map(starting.map((open) => [open.id, referencesOf(deps, open)])),
      );
      const intents = new Map([...proposed].map(([id, live_generation]) => [id, { intent: { live_generation } }]));
      const saved = await context.save(intents);
      batch.keep(new Set(batch.live.map(({ id }) => id).filter((id) => !intents.has(id) || saved.has(id))));
      for (const [id, progress] of intents) batch.remember(id, progress);
    }
    const live = new Map(
      batch.live.map(({ id, run }) => [id, intentSchema.parse(run.stage.metadata_json.intent).live_generation]),
    );
    await withRegistry(deps, batch, (marks) => deps.registry.ungate(marks, live, deps.settings.tombstoneSeconds));
    for (const { id } of batch.live) batch.finish(id, { kind: 'completed', result: { state: 'done' } });
    return { outcomes: batch.outcomes };
  };
}
