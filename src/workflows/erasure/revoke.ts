/** Ends sessions and tokens of one target, before anything is erased anywhere (WF-13). */
import type { Handler } from '../../engine/workflow.js';
import { TargetError } from '../../targets/target-error.js';
import { answerFor, answersOrFault, callTarget } from './call-target.js';
import { batchOf } from './count-targets.js';
import type { ErasureDependencies } from './dependencies.js';
import { countSubject } from './gating.js';
import { StageBatch } from './stage-batch.js';
import { visitedTarget } from './visited-target.js';

export function revokeHandler(deps: ErasureDependencies): Handler {
  return async (runs, { signal }) => {
    const batch = await StageBatch.open(runs, deps);
    const name = visitedTarget(runs);
    const target = deps.targets.get(name);
    const { batch: subjects, waiting } = batchOf(
      deps.targets,
      name,
      new Map(batch.live.map((open) => [open.id, countSubject(open)])),
    );
    const answers = await answersOrFault(subjects, () =>
      callTarget(name, signal, (limit) => target.revoke?.(subjects, limit) ?? Promise.resolve(new Map())),
    );
    for (const open of batch.live) {
      const answer = waiting.get(open.id) ?? answerFor(name, open.id, answers);
      if (answer instanceof TargetError) batch.fail(open, answer);
      else {
        const revoked = answer.map(({ place, rows }) => ({ place, rows }));
        batch.finish(open.id, { kind: 'completed', result: { state: 'done', revoked } });
      }
    }
    return { outcomes: batch.outcomes };
  };
}
