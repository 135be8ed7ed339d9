import type { StageRun } from '../../engine/workflow.js';

/** The target that a batch of visits is at: the engine groups by it. */
export function visitedTarget(runs: readonly StageRun[]): string {
  const target = runs[0]?.stage.target_community_id;
  if (target === undefined || target === null) throw new Error('A visit has no target.');
  return target;
}
