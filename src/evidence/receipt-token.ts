/**
 * Receipt tokens (contract WF-5). Where they are configured, the final receipt and the completed request carry one in place
 * of the subject reference.
 *
 * What a token proves: whoever holds the receipt-token key *and* the reference keys can, given an identifier that somebody
 * claims, say whether this receipt is about that subject. What it does not give: no way leads from the token to the
 * reference, two tokens of one subject have nothing in common, since the request id is part of each, and the registry's
 * rows cannot be matched with receipts without the key. Destroying the key ends the first as well.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { KeyRing, NamedKey } from '../keys/key-ring.js';
import { canonicalBytes } from './canonical-json.js';

const DOMAIN = 'expunge/receipt-token/1';

/** The form of a token: `token1.<key id>.<base64url>`. */
export const RECEIPT_TOKEN_FORM = /^token1\.([A-Za-z][A-Za-z0-9_-]{0,63})\.([A-Za-z0-9_-]{43})$/;

/** What a token is made of. */
export interface ReceiptTokenInput {
  readonly requestId: string;
  /** The subject reference, in full, as the request carried it. */
  readonly reference: string;
}

/** The token under the ring's current receipt-token key. @throws MissingKeyError at another door than the worker's. */
export function receiptToken(ring: KeyRing, input: ReceiptTokenInput): string {
  return tokenUnder(ring.receiptTokenKey(), input);
}

/**
 * Whether `token` was made of this request and reference. False for a text that is no token.
 * @throws MissingKeyError where the ring lacks the token's key: then nobody can tell.
 */
export function matchesReceiptToken(ring: KeyRing, token: string, input: ReceiptTokenInput): boolean {
  const [, keyId] = RECEIPT_TOKEN_FORM.exec(token) ?? [];
  if (keyId === undefined) return false;
  const expected = Buffer.from(tokenUnder(ring.receiptTokenKeyOf(keyId), input));
  const actual = Buffer.from(token);
  return actual.length === expected.length && timingSafeEqual(actual, expected);
}

function tokenUnder({ id, key }: NamedKey, { requestId, reference }: ReceiptTokenInput): string {
  const mac = createHmac('sha256', key).update(canonicalBytes([DOMAIN, requestId, reference]));
  return `token1.${id}.${mac.digest('base64url')}`;
}
