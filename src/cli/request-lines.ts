/** A request in words: why it stands where it stands. */
import type { RequestRow } from '../requests/request.js';
import { moment } from './table.js';

/** One line that says what a request waits for, or why it is blocked; empty where nothing is to be said. */
export function whyOf(request: RequestRow): string {
  const order =
    request.standing_order === null || request.status === 'held' ? '' : `; a ${request.standing_order} is ordered`;
  return `${standing(request)}${order}`;
}

function standing(request: RequestRow): string {
  if (request.lease_owner !== null) {
    return `owned by ${request.lease_owner} until ${moment(request.lease_expires_at)}`;
  }
  switch (request.status) {
    case 'submitted':
      return request.inventory_digest === null ? uncounted(request) : 'waits for approval';
    case 'awaiting_approval':
      return 'its new inventory waits for approval';
    case 'approved':
    case 'running':
      return 'waits for a run';
    case 'waiting':
      return `until ${moment(request.next_attempt_at)}${request.last_error === null ? '' : `: ${request.last_error}`}`;
    case 'retry_wait':
      return `failure ${request.retry_count}, again from ${moment(request.next_attempt_at)}: ${request.last_error ?? 'no error saved'}`;
    case 'held':
      return `held by an operator; goes back to ${request.held_status ?? 'where it was'}`;
    case 'blocked':
      return request.blocked_reason ?? request.last_error ?? 'no reason saved';
    case 'completed':
    case 'cancelled':
      return moment(request.completed_at);
  }
}

function uncounted({ next_attempt_at, last_error }: RequestRow): string {
  if (next_attempt_at === null) return 'waits for a worker to count it';
  return `to be counted from ${moment(next_attempt_at)}${last_error === null ? '' : `: ${last_error}`}`;
}
