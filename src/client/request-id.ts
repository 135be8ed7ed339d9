import { RequestRefusedError } from '../requests/request-error.js';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * A request's id as the database writes it: rows are found in memory by what the database answered. Text that is none goes no
 * further, and is not repeated: a driver would print it, and it may be somebody's identifier.
 * @throws RequestRefusedError UNKNOWN_REQUEST
 */
export function requestIdOf(text: string): string {
  if (typeof text === 'string' && UUID.test(text)) return text.toLowerCase();
  throw new RequestRefusedError('UNKNOWN_REQUEST', 'That is no request id: expunge list shows those that exist.');
}
