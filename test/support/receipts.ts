/** Values of one small deletion, for tests of receipts. */
import type { FinalOutcome, PlaceOutcome, ReceiptHead, TargetOutcome } from '../../src/evidence/write-receipt.js';
import { FIRST_LINK } from '../../src/evidence/receipt-chain.js';

export const DIGEST = '9f'.repeat(32);

/** @param change.n - makes the receipt's id. */
export function aHead({ n = 1, ...change }: Partial<ReceiptHead> & { readonly n?: number } = {}): ReceiptHead {
  return {
    link: FIRST_LINK,
    tenant: 'shop',
    requestId: '01993c1e-0000-7000-8000-00000000000a',
    receiptId: `01993c1e-0001-7000-8000-${String(n).padStart(12, '0')}`,
    inventoryDigest: DIGEST,
    verifiedAt: '2025-11-30T12:00:00.123456Z',
    walHorizon: null,
    backupHorizon: 'P30D',
    ...change,
  };
}

export function aPlace(change: Partial<PlaceOutcome> = {}): PlaceOutcome {
  return {
    place: 'customer',
    action: 'delete',
    basis: null,
    counted: 7,
    left: 0,
    retained: 0,
    retainedUntil: null,
    superseded: 0,
    ...change,
  };
}

export function aTargetOutcome(change: Partial<TargetOutcome> = {}): TargetOutcome {
  return {
    target: 'operational',
    targetKind: 'postgres',
    handlerVersion: 1,
    planDigest: DIGEST,
    places: [aPlace()],
    cleanup: [{ place: 'customer', did: ['vacuum', 'analyze'], left: ['STATISTICS_OF_EMPTY_TABLE'] }],
    identifiersUnreadableFrom: 'sealing_key_destroyed',
    ...change,
  };
}

export function aFinalOutcome(change: Partial<FinalOutcome> = {}): FinalOutcome {
  return {
    workflow: 'erasure',
    workflowVersion: 1,
    subject: { reference: `ref1.ref-a.${'A'.repeat(43)}` },
    approved: [{ revision: 1, inventoryDigest: DIGEST }],
    approvals: [{ inventoryDigest: DIGEST, approvedBy: 'operator-b', approvedAt: '2025-11-30T11:00:00Z' }],
    targets: [{ target: 'operational', resurrections: 0 }],
    identifiersUnreadableFrom: { rule: 'sealing_key_destroyed', at: '2025-12-01T00:00:00Z' },
    ...change,
  };
}
