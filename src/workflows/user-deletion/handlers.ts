/** Handlers that act on `demo:` targets only and delete nothing. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Handler, Outcome, StageRun } from '../../engine/workflow.js';

/** What an operator can make the training do. */
export interface Rehearsal {
  /** Communities whose purge_db reports that it found no agents. */
  readonly noAgentsIn: ReadonlySet<string>;
  /** The stage that fails, if any. */
  readonly failStage: string | null;
  /** How long every stage takes, in milliseconds. */
  readonly stageDelayMs: number;
}

export const STAGES = ['gate_user', 'purge_db', 'purge_agents'] as const;

export function rehearsalHandlers(rehearsal: Rehearsal): Readonly<Record<(typeof STAGES)[number], Handler>> {
  return {
    gate_user: handler(rehearsal, () => ({ gated: true })),
    purge_db: handler(rehearsal, ({ stage }) => ({
      has_agents: !rehearsal.noAgentsIn.has(stage.target_community_id ?? ''),
    })),
    purge_agents: handler(rehearsal, () => ({ purged: true })),
  };
}

function handler(
  rehearsal: Rehearsal,
  result: (run: StageRun) => Extract<Outcome, { kind: 'completed' }>['result'],
): Handler {
  return async (runs, { signal }) => {
    // Ends at the signal, without an outcome: the interrupted row stays as it is.
    if (rehearsal.stageDelayMs > 0) await sleep(rehearsal.stageDelayMs, undefined, { signal });
    return { outcomes: new Map(runs.map((run) => [run.request.id, outcomeOf(run, rehearsal, result)])) };
  };
}

function outcomeOf(
  run: StageRun,
  rehearsal: Rehearsal,
  result: (run: StageRun) => Extract<Outcome, { kind: 'completed' }>['result'],
): Outcome {
  if (run.stage.stage === rehearsal.failStage) {
    return { kind: 'failed', error: `REHEARSED_FAILURE: ${run.stage.stage} was told to fail`, retryable: true };
  }
  return { kind: 'completed', result: result(run) };
}
