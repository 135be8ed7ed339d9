/** What a training request would delete: the communities of a `demo:` target, in order. */
import { z } from 'zod';
import { ExpungeError, type ErrorOutcome } from '../../observe/expunge-error.js';
import { inventoryDigest } from '../../evidence/inventory-digest.js';
import { RequestRefusedError } from '../../requests/request-error.js';
import type { JsonObject } from '../../storage/json.js';

export const WORKFLOW = 'user-deletion';
export const WORKFLOW_VERSION = 1;

/** The communities of every `demo:` target. */
export const COMMUNITY_B = '00000000-0000-0000-0000-00000000000b';
export const COMMUNITY_C = '00000000-0000-0000-0000-00000000000c';

/** The most communities in one inventory (EX-12). */
export const MOST_COMMUNITIES = 1_000;

const schema = z.strictObject({
  version: z.literal(1),
  workflow: z.literal(WORKFLOW),
  target: z.string().regex(/^demo:[^\p{C}]{1,200}$/u),
  communities: z
    .array(z.strictObject({ id: z.guid(), role: z.enum(['participant', 'former_participant']) }))
    .min(1)
    .max(MOST_COMMUNITIES)
    .refine((communities) => new Set(communities.map(({ id }) => id)).size === communities.length),
});

export type UserDeletionInventory = z.infer<typeof schema>;

export class InventoryError extends ExpungeError {
  readonly code = 'INVALID_INVENTORY';
  readonly outcome: ErrorOutcome = 'refused';
}

export class DemoTargetError extends ExpungeError {
  readonly code = 'NOT_A_DEMO_TARGET';
  readonly outcome: ErrorOutcome = 'refused';
}

/** @throws DemoTargetError unless the target is `demo:` and a name: this workflow never acts on anything real. */
export function buildInventory(target: string): UserDeletionInventory {
  const parsed = schema.safeParse({
    version: 1,
    workflow: WORKFLOW,
    target,
    communities: [
      { id: COMMUNITY_B, role: 'participant' },
      { id: COMMUNITY_C, role: 'former_participant' },
    ],
  });
  if (parsed.success) return parsed.data;
  throw new DemoTargetError(
    'The target of a user deletion has to be demo:NAME, with a name of 1 to 200 printable characters: this workflow is for training and touches nothing real.',
  );
}

/**
 * @throws RequestRefusedError UNREGISTERED_VERSION for a version that this program does not know (EX-27), InventoryError for
 *   an inventory that does not validate.
 */
export function readInventory(inventory: JsonObject, requestId: string): UserDeletionInventory {
  const { version } = inventory;
  if (version !== 1) {
    throw new RequestRefusedError(
      'UNREGISTERED_VERSION',
      `The inventory of request ${requestId} is of version ${typeof version === 'number' ? version : '(none)'}, which this program does not have: use the program that has it.`,
      requestId,
    );
  }
  const parsed = schema.safeParse(inventory);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const path = issue?.path.map(String).join('.') ?? '';
  if (issue?.code === 'too_big' && path === 'communities') {
    throw new InventoryError(
      `The inventory of request ${requestId} has more than ${MOST_COMMUNITIES} communities, which are the most: split it.`,
    );
  }
  throw new InventoryError(
    `The inventory of request ${requestId} is not valid at ${path === '' ? 'its top' : path}: a person has to look.`,
  );
}

/**
 * Covers the target itself: there is nothing to keep secret about it, and so neither key nor salt (EX-25).
 * @param target - the request's own, so that an inventory of another target never has its digest.
 */
export function digestOf(inventory: JsonObject, requestId: string, target: string | null): string {
  const valid = readInventory(inventory, requestId);
  return inventoryDigest({
    schemaVersion: valid.version,
    workflow: WORKFLOW,
    workflowVersion: WORKFLOW_VERSION,
    commitment: target ?? '',
    inventory,
  });
}
