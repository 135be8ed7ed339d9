/** Receipts from the values that the engine knows. What can be derived is derived here, never handed in. */
import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';
import { canonicalBytes } from './canonical-json.js';
import {
  APPLIED,
  RECEIPT_FORMAT_VERSION,
  receiptSchema,
  stateOfPlaces,
  type FinalReceipt,
  type PlaceReceipt,
  type Receipt,
  type TargetReceipt,
} from './receipt.js';

/** The largest receipt, in bytes of its canonical JSON. */
export const MAX_RECEIPT_BYTES = 65_536;

/** A receipt would not fit into {@link MAX_RECEIPT_BYTES}. */
export class ReceiptTooLargeError extends ExpungeError {
  readonly code = 'RECEIPT_TOO_LARGE';
  readonly outcome: ErrorOutcome = 'refused';

  constructor(of: string, bytes: number) {
    super(
      `The receipt of ${of} takes ${bytes} bytes, and ${MAX_RECEIPT_BYTES} is the most; divide the target into several with fewer places each.`,
    );
  }
}

/** Values were put together that are no receipt. The message names the field, never its value. */
export class InvalidReceiptError extends ExpungeError {
  readonly code = 'INVALID_RECEIPT';
  readonly outcome: ErrorOutcome = 'failed';

  constructor(field: string) {
    super(
      `A receipt was not written, because its field ${field} does not have the form that receipts have; this is a fault of the program, please report it.`,
    );
  }
}

/** Where a new receipt stands in its chain; `linkAfter` makes one. */
export interface ChainLink {
  /** From 1 upwards. */
  readonly sequence: number;
  /** The hash of the signed receipt before it; null for the first. */
  readonly previousHash: string | null;
}

/** What every receipt says. */
export interface ReceiptHead {
  readonly link: ChainLink;
  readonly tenant: string;
  readonly requestId: string;
  /** A new UUIDv7. */
  readonly receiptId: string;
  readonly inventoryDigest: string;
  /** The database's time of the read that verified it, ISO 8601 in UTC. */
  readonly verifiedAt: string;
  /** How long the write-ahead log and backups are kept, as ISO 8601 durations; null where that is not declared. */
  readonly walHorizon: string | null;
  readonly backupHorizon: string | null;
}

/** What was counted in one place, before and after. */
export interface PlaceOutcome {
  readonly place: string;
  readonly action: PlaceReceipt['action'];
  readonly basis: string | null;
  /** Matching copies when the intent was saved. */
  readonly counted: number;
  /** Matching copies that the independent read found after the erase. */
  readonly left: number;
  readonly retained: number;
  readonly retainedUntil: string | null;
  readonly superseded: number;
}

/** What the receipt of a target says besides. */
export interface TargetOutcome {
  readonly target: string;
  readonly targetKind: string;
  readonly handlerVersion: number;
  readonly planDigest: string;
  readonly places: readonly PlaceOutcome[];
  readonly cleanup: readonly {
    readonly place: string;
    readonly did: readonly string[];
    readonly left: readonly string[];
  }[];
  readonly identifiersUnreadableFrom: TargetReceipt['physical']['identifiers_unreadable_from'];
}

/** What the final receipt says besides. */
export interface FinalOutcome {
  readonly workflow: string;
  readonly workflowVersion: number;
  /** The subject reference, or the one-way token in its place. */
  readonly subject: { readonly reference: string } | { readonly receiptToken: string };
  readonly approved: readonly { readonly revision: number; readonly inventoryDigest: string }[];
  readonly approvals: readonly {
    readonly inventoryDigest: string;
    readonly approvedBy: string;
    readonly approvedAt: string;
  }[];
  /** Every target of the inventory, those without resurrections too. */
  readonly targets: readonly { readonly target: string; readonly resurrections: number }[];
  readonly identifiersUnreadableFrom: FinalReceipt['physical']['identifiers_unreadable_from'];
}

/**
 * The receipt of one target's erase. `removed` and its like are `counted` minus `left` (contract WF-20).
 * @throws InvalidReceiptError where more is left than was counted, or a field has a wrong form; ReceiptTooLargeError.
 */
export function targetReceipt(head: ReceiptHead, outcome: TargetOutcome): TargetReceipt {
  const places = outcome.places.map(placeReceipt);
  return checked({
    ...headFields(head),
    kind: 'target',
    target: outcome.target,
    target_kind: outcome.targetKind,
    handler_version: outcome.handlerVersion,
    plan_digest: outcome.planDigest,
    places,
    state: stateOfPlaces(places),
    physical: {
      cleanup: outcome.cleanup.map(({ place, did, left }) => ({ place, did: [...did], left: [...left] })),
      wal_horizon: head.walHorizon,
      backup_horizon: head.backupHorizon,
      identifiers_unreadable_from: outcome.identifiersUnreadableFrom,
    },
  });
}

/** The receipt that closes a chain. @throws InvalidReceiptError where a field has a wrong form; ReceiptTooLargeError. */
export function finalReceipt(head: ReceiptHead, outcome: FinalOutcome): FinalReceipt {
  return checked({
    ...headFields(head),
    kind: 'final',
    workflow: outcome.workflow,
    workflow_version: outcome.workflowVersion,
    subject_reference: 'reference' in outcome.subject ? outcome.subject.reference : null,
    receipt_token: 'receiptToken' in outcome.subject ? outcome.subject.receiptToken : null,
    approved: outcome.approved.map(({ revision, inventoryDigest }) => ({
      revision,
      inventory_digest: inventoryDigest,
    })),
    approvals: outcome.approvals.map(({ inventoryDigest, approvedBy, approvedAt }) => ({
      inventory_digest: inventoryDigest,
      approved_by: approvedBy,
      approved_at: approvedAt,
    })),
    targets: outcome.targets.map(({ target, resurrections }) => ({ target, resurrections })),
    receipts: head.link.sequence - 1,
    status: 'complete',
    physical: {
      wal_horizon: head.walHorizon,
      backup_horizon: head.backupHorizon,
      identifiers_unreadable_from: { ...outcome.identifiersUnreadableFrom },
    },
  });
}

/**
 * Refuses a target whose receipt could turn out too large, before anything is deleted: with every count at its longest and
 * two lines of clean-up left in every place.
 * @throws ReceiptTooLargeError naming the target.
 */
export function assertReceiptWillFit(
  target: string,
  targetKind: string,
  places: readonly Pick<PlaceOutcome, 'place' | 'action' | 'basis'>[],
): void {
  const most = Number.MAX_SAFE_INTEGER;
  const digest = '0'.repeat(64);
  const left = ['STATISTICS_OF_EMPTY_TABLE', 'STATISTICS_OF_EMPTY_TABLE'];
  targetReceipt(
    {
      link: { sequence: most, previousHash: digest },
      tenant: '-'.repeat(200),
      requestId: LONGEST_ID,
      receiptId: LONGEST_ID,
      inventoryDigest: digest,
      verifiedAt: '2000-01-01T00:00:00.000000Z',
      walHorizon: 'P1000D',
      backupHorizon: 'P1000D',
    },
    {
      target,
      targetKind,
      handlerVersion: most,
      planDigest: digest,
      places: places.map(({ place, action, basis }) => {
        return {
          place,
          action,
          basis,
          counted: most,
          left: 0,
          retained: most,
          retainedUntil: '2000-01-01',
          superseded: most,
        };
      }),
      cleanup: places.map(({ place }) => ({ place, did: ['vacuum', 'analyze'], left })),
      identifiersUnreadableFrom: 'sealing_key_destroyed',
    },
  );
}

/** All UUIDs have one length. */
const LONGEST_ID = '00000000-0000-7000-8000-000000000000';

function headFields(head: ReceiptHead) {
  return {
    format_version: RECEIPT_FORMAT_VERSION,
    tenant: head.tenant,
    request_id: head.requestId,
    receipt_id: head.receiptId,
    sequence: head.link.sequence,
    previous_hash: head.link.previousHash,
    inventory_digest: head.inventoryDigest,
    level: 'logical',
    verified_at: head.verifiedAt,
  } as const;
}

function placeReceipt(outcome: PlaceOutcome): PlaceReceipt {
  const applied = APPLIED[outcome.action];
  const done = outcome.counted - outcome.left;
  return {
    place: outcome.place,
    action: outcome.action,
    basis: outcome.basis,
    counted: outcome.counted,
    removed: applied === 'removed' ? done : 0,
    anonymized: applied === 'anonymized' ? done : 0,
    pseudonymized: applied === 'pseudonymized' ? done : 0,
    retained: outcome.retained,
    retained_until: outcome.retainedUntil,
    superseded: outcome.superseded,
    left: outcome.left,
  };
}

/**
 * Checks form and size.
 * @throws InvalidReceiptError, ReceiptTooLargeError.
 */
export function checked<R extends Receipt>(receipt: R): R {
  const result = receiptSchema.safeParse(receipt);
  if (!result.success) throw new InvalidReceiptError(result.error.issues[0]?.path.join('.') ?? 'kind');
  const bytes = canonicalBytes(receipt).length;
  if (bytes > MAX_RECEIPT_BYTES) {
    throw new ReceiptTooLargeError(
      receipt.kind === 'target' ? `target ${receipt.target}` : `request ${receipt.request_id}`,
      bytes,
    );
  }
  return receipt;
}
