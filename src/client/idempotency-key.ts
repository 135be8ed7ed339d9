/** What stands in the record for an idempotency key: callers like to build theirs from the very identifier (WF-2, WF-5). */
import { createHmac } from 'node:crypto';
import { canonicalBytes } from '../evidence/canonical-json.js';
import type { KeyRing } from '../keys/key-ring.js';
import { RequestRefusedError } from '../requests/request-error.js';

/** Separates these MACs from subject references, which are made with the same key. */
const DOMAIN = 'expunge/idempotency-key/1';

/** The same key under the same tenant and reference key is the same text; without the reference key it tells nothing. */
export function idempotencyToken(ring: KeyRing, tenant: string, key: string): string {
  const { id, key: secret } = ring.referenceKey(ring.readingReferenceKeyId);
  const mac = createHmac('sha256', secret)
    .update(canonicalBytes([DOMAIN, tenant, key]))
    .digest('base64url');
  return `idem1.${id}.${mac}`;
}

export function idempotencyConflict(existing: string): RequestRefusedError {
  return new RequestRefusedError(
    'IDEMPOTENCY_CONFLICT',
    `The idempotency key was used for request ${existing}, which is about somebody else: use a new key.`,
    existing,
  );
}
