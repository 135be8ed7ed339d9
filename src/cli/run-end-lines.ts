/** What is said of a run that did not simply finish: what it waits for, until when, and how to go on. */
import type { ShownRequest } from '../client/record.js';
import type { RunEnd } from '../engine/advance.js';

/**
 * One sentence, or null where nothing is left to say.
 * @param stepwise - whether only one step was asked for.
 */
export function runEndLine(id: string, end: Exclude<RunEnd, { kind: 'error' }>, stepwise: boolean): string | null {
  switch (end.kind) {
    case 'ended':
      return null;
    case 'waiting':
      return `Request ${id} ${waitingFor(id, end)}`;
    case 'budget':
      if (stepwise) return null;
      return `Request ${id} has used the stages of one run and stands at ${end.stage}${end.place === null ? '' : ` of ${end.place}`}: expunge run ${id} goes on.`;
    case 'interrupted':
      return `Request ${id} was interrupted; its stage stays current, and expunge run ${id} resumes it.`;
  }
}

function waitingFor(id: string, { status, until, why }: Extract<RunEnd, { kind: 'waiting' }>): string {
  const because = why === null ? '' : ` (${why})`;
  const from = until === null ? '' : ` from ${until.toISOString()}`;
  switch (status) {
    case 'retry_wait':
      return `failed${because}: expunge run ${id} tries it again${from}.`;
    case 'blocked':
      return `is blocked${because}: repair what is wrong, then expunge unblock ${id} lets it go on.`;
    case 'submitted':
      return until === null
        ? `is counted and waits for approval: review it with expunge show ${id}.`
        : `could not be counted${because}: expunge run ${id} tries it again${from}.`;
    case 'approved':
      return `is counted and approved: expunge run ${id} goes on.`;
    case 'awaiting_approval':
      return `waits for approval of its new inventory${because}: review it with expunge show ${id}.`;
    case 'held':
      return `is held: it goes on when the hold ends, or with expunge hold ${id} --end.`;
    default:
      return `waits${because}: expunge run ${id} goes on${from}.`;
  }
}

/** The result of a run, as JSON: how it ended, and where the request stands now. */
export function runResult({ request, stages }: ShownRequest, end: Exclude<RunEnd, { kind: 'error' }>) {
  const current = stages.find(({ is_current }) => is_current);
  return {
    id: request.id,
    target: request.target,
    end: end.kind,
    status: request.status,
    current:
      current === undefined
        ? null
        : {
            id: current.id,
            stage: current.stage,
            target_community_id: current.target_community_id,
            status: current.status,
          },
    retry_count: request.retry_count,
    next_attempt_at: request.next_attempt_at,
    last_error: request.last_error,
    blocked_reason: request.blocked_reason,
    completed_at: request.completed_at,
  };
}
