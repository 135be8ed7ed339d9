/** A refusal changes nothing but the event log, which says that it happened (OP-10). */
import { findExpungeError } from '../observe/expunge-error.js';
import { appendEvents } from '../requests/events.js';
import { RequestRefusedError } from '../requests/request-error.js';
import type { Queries } from '../storage/database.js';
import { storableText } from '../storage/storable.js';

/** There is nothing to record them at, or nobody who may be named. */
const UNRECORDED: ReadonlySet<string> = new Set(['UNKNOWN_REQUEST', 'INVALID_OPERATOR']);

/**
 * Does the work, and records its refusal.
 * @param requestId - what it is about; null where it would have become one. A refusal that names a request is recorded there.
 * @param actor - who asked, by a name that is known not to be the subject's where the work gets as far as a refusal.
 * @throws what the work throws.
 */
export async function recordRefusal<T>(
  queries: Queries,
  requestId: string | null,
  actor: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const refusal = findExpungeError(error);
    if (refusal?.outcome === 'refused' && !UNRECORDED.has(refusal.code)) {
      const about = requestId ?? (refusal instanceof RequestRefusedError ? refusal.requestId : null);
      await appendEvents(queries, [
        { request_id: about, event: 'refused', actor: storableText(actor, 200), detail: { code: refusal.code } },
      ]);
    }
    throw error;
  }
}
