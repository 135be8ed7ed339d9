/** Submitting training requests (OP-1, OP-2). */
import { v7 as uuidv7 } from 'uuid';
import { sql } from 'kysely';
import { appendEvents } from '../requests/events.js';
import { operatorName } from '../requests/operator.js';
import { RequestRefusedError } from '../requests/request-error.js';
import { submit } from '../requests/submit.js';
import type { Database } from '../storage/database.js';
import {
  buildInventory,
  digestOf,
  type UserDeletionInventory,
  WORKFLOW,
  WORKFLOW_VERSION,
} from '../workflows/user-deletion/inventory.js';

export interface UserDeletionInput {
  /** `demo:` and a name. */
  readonly target: string;
  readonly requestedBy: string;
  readonly reasonCode?: string;
}

export interface SubmittedUserDeletion {
  readonly id: string;
  readonly workflow: typeof WORKFLOW;
  readonly target: string;
  readonly status: 'submitted';
  readonly inventory: UserDeletionInventory;
  readonly inventory_digest: string;
  readonly requested_by: string;
  readonly reason_code: string | null;
  readonly created_at: Date;
}

/** A machine-readable reason: for people there is nowhere to put a sentence, and so no place for personal data. */
const REASON_CODE = /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$/;

/** @throws RequestRefusedError INVALID_ORDER */
export function reasonCode(code: string | undefined): string | null {
  if (code === undefined) return null;
  if (REASON_CODE.test(code)) return code;
  throw new RequestRefusedError(
    'INVALID_ORDER',
    'The reason code has to be 1 to 64 letters, digits, or _ . : - characters, such as MAIL_REQUEST.',
  );
}

/** @throws DemoTargetError, RequestRefusedError LIVE_REQUEST_EXISTS (naming it) */
export async function submitUserDeletion(database: Database, input: UserDeletionInput): Promise<SubmittedUserDeletion> {
  const inventory = buildInventory(input.target);
  const id = uuidv7();
  const digest = digestOf(inventory, id, input.target);
  const requestedBy = operatorName('--requested-by', input.requestedBy);
  const code = reasonCode(input.reasonCode);
  const submitted = await database.transaction(async (tx) => {
    const [result] = await submit(tx, [
      {
        id,
        workflow: WORKFLOW,
        workflowVersion: WORKFLOW_VERSION,
        target: input.target,
        subjectReference: null,
        inventory,
        inventoryDigest: digest,
        requestedBy,
        reasonCode: code,
        idempotencyKey: null,
        approvalsRequired: 1,
        dueAt: null,
        sealed: [],
      },
    ]);
    if (result?.kind !== 'submitted') return { existing: result?.existing ?? id };
    const { rows } = await sql<{ created_at: Date }>`
      SELECT created_at FROM ${tx.t.requests} WHERE id = ${id}::uuid`.execute(tx.db);
    return rows[0] as { created_at: Date };
  });
  if ('existing' in submitted) {
    const refusal = liveRequest(submitted.existing);
    // A refusal changes nothing but the event log, which says that it happened (OP-10).
    await appendEvents(database, [
      { request_id: submitted.existing, event: 'refused', actor: requestedBy, detail: { code: refusal.code } },
    ]);
    throw refusal;
  }
  return {
    id,
    workflow: WORKFLOW,
    target: input.target,
    status: 'submitted',
    inventory,
    inventory_digest: digest,
    requested_by: requestedBy,
    reason_code: code,
    created_at: submitted.created_at,
  };
}

export function liveRequest(existing: string): RequestRefusedError {
  return new RequestRefusedError(
    'LIVE_REQUEST_EXISTS',
    `There is a live request for this already: ${existing}; finish or cancel it first (expunge show ${existing}).`,
    existing,
  );
}
