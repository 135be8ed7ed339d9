/**
 * Receipts: bounded evidence of what was done (contract WF-22). They hold targets, places, counts, times, versions, hashes and
 * operators' ids; never content, keys of rows or an identifier of a subject. One is written for each target when an
 * independent read has shown it clean, and a final one closes the chain of the request.
 *
 * The field names are those of the signed JSON. A change of form is a new `format_version`; verifiers keep the old ones.
 */
import { z } from 'zod';
import { RECEIPT_TOKEN_FORM } from './receipt-token.js';

/** The form that this program writes. */
export const RECEIPT_FORMAT_VERSION = 1;

const count = z.int().min(0);
const digest = z.string().regex(/^[0-9a-f]{64}$/);
/** A declared name: printable, without control characters. */
const label = z.string().regex(/^\P{Cc}{1,200}$/u);
const code = z.string().regex(/^[A-Za-z][A-Za-z0-9_.-]{0,63}$/);
/** A time of the database's clock, in UTC. */
const instant = z.iso.datetime();
const duration = z.iso.duration();

/** What was done to the copies in one place. */
const placeReceiptSchema = z.strictObject({
  place: label,
  /** As declared; it decides which of the three counts below is the one that applies. */
  action: z.enum(['delete', 'anonymize', 'pseudonymize', 'retain']),
  /** The obligation under which copies are kept; null where none are. */
  basis: label.nullable(),
  /** Copies that the action had to be applied to: the count that was saved as intent before the first delete (contract WF-20). */
  counted: count,
  /** Copies that are gone. With `delete`, `counted` minus `left`; a masked value is never called removed (contract WF-21). */
  removed: count,
  /** Copies from which nothing leads to the person any more. With `anonymize`, `counted` minus `left`. */
  anonymized: count,
  /** Copies that still carry a key. With `pseudonymize`, `counted` minus `left`. */
  pseudonymized: count,
  /** Copies that stay by declaration, and until when the last of them does. */
  retained: count,
  retained_until: z.iso.date().nullable(),
  /** Copies that belong to a newer generation of the subject and were not touched. */
  superseded: count,
  /** Copies that the independent read after the erase still found; zero in every receipt of a finished target. */
  left: count,
});

/**
 * From when what was sealed cannot be read any more, not even in old row versions, in the WAL and in backups (contract WF-3):
 * when the sealing key of its period is destroyed, or when the last declared horizon has passed.
 */
const unreadableRule = z.enum(['sealing_key_destroyed', 'horizons_passed']);

/** What deletion on the logical level leaves on disks for a while, as the installation declares it. */
const horizonFields = {
  /** How long the write-ahead log is kept; null where it is not declared. */
  wal_horizon: duration.nullable(),
  /** How long backups are kept; null where it is not declared. */
  backup_horizon: duration.nullable(),
};

const chainFields = {
  format_version: z.literal(RECEIPT_FORMAT_VERSION),
  tenant: label,
  request_id: z.uuid(),
  receipt_id: z.uuidv7(),
  /** Its place in the chain of the request; the first is 1. */
  sequence: z.int().min(1),
  /** The hash of the signed receipt before it; null for the first. */
  previous_hash: digest.nullable(),
  /** The digest of the approved inventory under which the work was done. */
  inventory_digest: digest,
  /** What was verified: that the store no longer gives the copies out. */
  level: z.literal('logical'),
  /** When the independent read found it so. */
  verified_at: instant,
};

/** The receipt of one target's erase. */
const targetReceiptSchema = z
  .strictObject({
    ...chainFields,
    kind: z.literal('target'),
    target: label,
    target_kind: code,
    handler_version: z.int().min(0),
    plan_digest: digest,
    places: z.array(placeReceiptSchema),
    /** Follows from the places; see `stateOfPlaces`. */
    state: z.enum(['erased', 'absent', 'retained', 'superseded', 'incomplete']),
    physical: z.strictObject({
      /** What was cleaned up after the erase, and what stays all the same (contract WF-23). */
      cleanup: z.array(z.strictObject({ place: label, did: z.array(code), left: z.array(code) })),
      ...horizonFields,
      identifiers_unreadable_from: unreadableRule,
    }),
  })
  .refine(linksBack, { path: ['previous_hash'] })
  .refine((it) => areDistinct(it.places.map(({ place }) => place)), { path: ['places'] });

/** The receipt that closes a chain; without it the chain is incomplete. */
const finalReceiptSchema = z
  .strictObject({
    ...chainFields,
    kind: z.literal('final'),
    workflow: code,
    workflow_version: z.int().min(1),
    /** Whom the deletion was about; null where the receipt token is configured. */
    subject_reference: z
      .string()
      .regex(/^ref1\.[A-Za-z][A-Za-z0-9_-]{0,63}\.[A-Za-z0-9_-]{43}$/)
      .nullable(),
    /** The one-way token in place of the reference (contract WF-5); null where it is not configured. */
    receipt_token: z.string().regex(RECEIPT_TOKEN_FORM).nullable(),
    /** Every revision of the inventory that was approved, in order. */
    approved: z.array(z.strictObject({ revision: z.int().min(1), inventory_digest: digest })).min(1),
    approvals: z.array(z.strictObject({ inventory_digest: digest, approved_by: label, approved_at: instant })).min(1),
    /** Every target, with the copies that came back and were erased again (contract WF-27). */
    targets: z.array(z.strictObject({ target: label, resurrections: count })),
    /** How many receipts stand before this one. */
    receipts: count,
    status: z.literal('complete'),
    physical: z.strictObject({
      ...horizonFields,
      /** The rule, and the time by it where that is known at this moment. */
      identifiers_unreadable_from: z.strictObject({ rule: unreadableRule, at: instant.nullable() }),
    }),
  })
  .refine(linksBack, { path: ['previous_hash'] })
  .refine((it) => (it.subject_reference === null) !== (it.receipt_token === null), { path: ['receipt_token'] })
  .refine((it) => areDistinct(it.targets.map(({ target }) => target)), { path: ['targets'] });

export const receiptSchema = z.discriminatedUnion('kind', [targetReceiptSchema, finalReceiptSchema]);

export type PlaceReceipt = z.infer<typeof placeReceiptSchema>;
export type TargetReceipt = z.infer<typeof targetReceiptSchema>;
export type FinalReceipt = z.infer<typeof finalReceiptSchema>;
export type Receipt = z.infer<typeof receiptSchema>;

/** The field that counts what an action did. */
export const APPLIED = {
  delete: 'removed',
  anonymize: 'anonymized',
  pseudonymize: 'pseudonymized',
  retain: null,
} as const satisfies Record<PlaceReceipt['action'], keyof PlaceReceipt | null>;

/** What the places of a target come to: the least finished one decides. `absent`: there was nothing of the subject in any. */
export function stateOfPlaces(places: readonly PlaceReceipt[]): TargetReceipt['state'] {
  if (places.some(({ left }) => left > 0)) return 'incomplete';
  if (places.some(({ retained }) => retained > 0)) return 'retained';
  if (places.some(({ superseded }) => superseded > 0)) return 'superseded';
  return places.some(({ counted }) => counted > 0) ? 'erased' : 'absent';
}

function linksBack(receipt: { readonly sequence: number; readonly previous_hash: string | null }): boolean {
  return (receipt.sequence === 1) === (receipt.previous_hash === null);
}

function areDistinct(names: readonly string[]): boolean {
  return new Set(names).size === names.length;
}
