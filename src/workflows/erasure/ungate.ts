/** After a cancel: the subject is live again, as the next generation, and every reference given out before is good (REG-9). */
import { z } from 'zod';
import type { Handler } from '../../engine/workflow.js';
import type { ErasureDependencies } from './dependencies.js';
import { proposeGenerations, withRegistry } from './marks.js';
import { StageBatch } from './stage-batch.js';

const intentSchema = z.strictObject({ live_generation: z.int().positive() });

export function ungateHandler(deps: ErasureDependencies): Handler {
  return async (runs, context) => {
    const batch = await StageBatch.open(runs, deps);
    // Saved before it is used (REG-10).
    const starting = batch.live.filter(({ run }) => run.stage.metadata_json.intent === undefined);
    const proposed = await proposeGenerations(deps, batch, starting);
    await batch.save(
      context,
      new Map([...proposed].map(([id, live_generation]) => [id, { intent: { live_generation } }])),
    );
    const live = new Map(
      batch.live.map(({ id, run }) => [id, intentSchema.parse(run.stage.metadata_json.intent).live_generation]),
    );
    // A newer generation, and a tombstone that is gone, leave nothing to put back.
    await withRegistry(deps, batch, (marks) => deps.registry.ungate(marks, live, deps.settings.tombstoneSeconds));
    for (const { id } of batch.live) batch.finish(id, { kind: 'completed', result: { state: 'done' } });
    return { outcomes: batch.outcomes };
  };
}
