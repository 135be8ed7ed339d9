/**
 * The chain of a request's receipts: each names the hash of the signed one before it (contract WF-22). A chain belongs to one
 * request, because one chain for all would put every commit behind the other.
 */
import type { KeyRing } from '../keys/key-ring.js';
import { sign } from '../keys/sign.js';
import { canonicalBytes, sha256Hex } from './canonical-json.js';
import type { Receipt } from './receipt.js';
import { checked, type ChainLink } from './write-receipt.js';

/** The place of a request's first receipt. */
export const FIRST_LINK: ChainLink = Object.freeze({ sequence: 1, previousHash: null });

/** A receipt as it is stored and exported. */
export interface SignedReceipt<R extends Receipt = Receipt> {
  readonly receipt: R;
  /** The compact JSON Web Signature over the canonical JSON of `receipt`. */
  readonly jws: string;
  /** The hash that the next receipt names. */
  readonly hash: string;
}

/** The hash of a signed receipt: SHA-256 of its whole text, signature included, in lower-case hexadecimal. */
export function receiptHash(jws: string): string {
  return sha256Hex(jws);
}

/** The place after `last`, which is the last stored receipt of the request; the first place where there is none. */
export function linkAfter(last: { readonly sequence: number; readonly hash: string } | null): ChainLink {
  return last === null ? FIRST_LINK : { sequence: last.sequence + 1, previousHash: last.hash };
}

/**
 * Signs a receipt. Asynchronous, and done before the transaction that stores it begins; a place in the chain that was taken
 * meanwhile is refused by the store, and the receipt is made again.
 *
 * @throws MissingKeyError at another door than the worker's; InvalidReceiptError, ReceiptTooLargeError.
 */
export async function signReceipt<R extends Receipt>(ring: KeyRing, receipt: R): Promise<SignedReceipt<R>> {
  const jws = await sign(ring, 'expunge-receipt+json', canonicalBytes(checked(receipt)));
  return { receipt, jws, hash: receiptHash(jws) };
}
