/**
 * The digest of an inventory: what an approval approves (contract EX-25). It is computed again from stored values at submit,
 * at approval and by every transition; neither a key nor the salt is needed for that.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { JsonObject, JsonValue } from '../storage/json.js';
import { canonicalBytes, canonicalJson, sha256Hex } from './canonical-json.js';

/** Separates these digests from every other hash. Raised with the form of what follows it. */
const DIGEST_DOMAIN = 'expunge/inventory-digest/1';
const COMMITMENT_DOMAIN = 'expunge/subject-commitment/1';

/** What an inventory digest covers. */
export interface InventoryDigestInput {
  /** The version of the inventory's own form. */
  readonly schemaVersion: number;
  readonly workflow: string;
  readonly workflowVersion: number;
  /**
   * Whom the inventory is about: for an erasure the {@link commitment}, as it also stands inside the inventory (contract
   * WF-6); for `user-deletion` the target's text itself.
   */
  readonly commitment: string;
  /** The whole inventory. The order of its keys does not matter; the order of its arrays does. */
  readonly inventory: JsonValue;
}

/**
 * SHA-256 over the canonical JSON of all of the input, as 64 lower-case hexadecimal digits.
 * @throws NotPlainJsonError where the inventory is no plain JSON.
 */
export function inventoryDigest(input: InventoryDigestInput): string {
  return sha256Hex(printed(input));
}

function printed(input: InventoryDigestInput): string {
  return canonicalJson({
    domain: DIGEST_DOMAIN,
    schema_version: input.schemaVersion,
    workflow: input.workflow,
    workflow_version: input.workflowVersion,
    commitment: input.commitment,
    inventory: input.inventory,
  });
}

/**
 * The same digests for many inventories that hold their commitment and differ in little else, as those of a batch do: what
 * they have in common is printed once, which is most of what a digest costs.
 */
export class InventoryDigests {
  /** Stands for the commitment. Random, so that nothing else in an inventory can be it. */
  readonly #blank = randomBytes(32).toString('hex');
  readonly #printed = new Map<string, readonly string[]>();

  /** @throws NotPlainJsonError where the inventory is no plain JSON. */
  digest(input: Omit<InventoryDigestInput, 'inventory'> & { readonly inventory: JsonObject }): string {
    const { commitment: committed, inventory } = input;
    if (inventory['commitment'] !== committed) return inventoryDigest(input);
    const blank = { ...input, commitment: this.#blank, inventory: { ...inventory, commitment: this.#blank } };
    const key = JSON.stringify(blank);
    const parts = this.#printed.get(key) ?? printed(blank).split(this.#blank);
    this.#printed.set(key, parts);
    return sha256Hex(parts.join(committed));
  }
}

/** A new salt: 32 random bytes in base64url. It is sealed on the request and destroyed at its end (contract WF-5). */
export function newSalt(): string {
  return randomBytes(32).toString('base64url');
}

/**
 * Binds an inventory to a subject without naming it: HMAC-SHA-256 of the subject reference under the salt. While the salt
 * exists, whoever has it can check the reference; once it is destroyed, nothing leads from the inventory to the reference.
 *
 * @param salt - from {@link newSalt}.
 * @returns 64 lower-case hexadecimal digits.
 */
export function commitment(salt: string, reference: string): string {
  return createHmac('sha256', Buffer.from(salt, 'base64url'))
    .update(canonicalBytes([COMMITMENT_DOMAIN, reference]))
    .digest('hex');
}

/** Whether `committed` is the commitment to `reference` under `salt`; false for any text that is no commitment. */
export function matchesCommitment(committed: string, salt: string, reference: string): boolean {
  const expected = Buffer.from(commitment(salt, reference));
  const actual = Buffer.from(committed);
  return actual.length === expected.length && timingSafeEqual(actual, expected);
}
