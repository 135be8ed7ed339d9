/** Values of one small deletion, for tests of receipts. They import nothing: the types are held against the product's where they are used. */

export const DIGEST = '9f'.repeat(32);

const head = {
  link: { sequence: 1, previousHash: null as string | null },
  tenant: 'shop',
  requestId: '01993c1e-0000-7000-8000-00000000000a',
  receiptId: '01993c1e-0001-7000-8000-000000000001',
  inventoryDigest: DIGEST,
  verifiedAt: '2025-11-30T12:00:00.123456Z',
  walHorizon: null as string | null,
  backupHorizon: 'P30D' as string | null,
};

const place = {
  place: 'customer',
  action: 'delete' as 'delete' | 'anonymize' | 'pseudonymize' | 'retain',
  basis: null as string | null,
  counted: 7,
  left: 0,
  retained: 0,
  retainedUntil: null as string | null,
  superseded: 0,
};

const targetOutcome = {
  target: 'operational',
  targetKind: 'postgres',
  handlerVersion: 1,
  planDigest: DIGEST,
  places: [place],
  cleanup: [{ place: 'customer', did: ['vacuum', 'analyze'], left: ['STATISTICS_OF_EMPTY_TABLE'] }],
  identifiersUnreadableFrom: 'sealing_key_destroyed' as const,
};

const finalOutcome = {
  workflow: 'erasure',
  workflowVersion: 1,
  subject: { reference: `ref1.ref-a.${'A'.repeat(43)}` } as { reference: string } | { receiptToken: string },
  approved: [{ revision: 1, inventoryDigest: DIGEST }],
  approvals: [{ inventoryDigest: DIGEST, approvedBy: 'operator-b', approvedAt: '2025-11-30T11:00:00Z' }],
  targets: [{ target: 'operational', resurrections: 0 }],
  identifiersUnreadableFrom: { rule: 'sealing_key_destroyed' as const, at: '2025-12-01T00:00:00Z' },
};

/** @param change.n - makes the receipt's id. */
export function aHead({ n = 1, ...change }: Partial<typeof head> & { readonly n?: number } = {}): typeof head {
  return { ...head, receiptId: `01993c1e-0001-7000-8000-${String(n).padStart(12, '0')}`, ...change };
}

export function aPlace(change: Partial<typeof place> = {}): typeof place {
  return { ...place, ...change };
}

export function aTargetOutcome(change: Partial<typeof targetOutcome> = {}): typeof targetOutcome {
  return { ...targetOutcome, ...change };
}

export function aFinalOutcome(change: Partial<typeof finalOutcome> = {}): typeof finalOutcome {
  return { ...finalOutcome, ...change };
}
