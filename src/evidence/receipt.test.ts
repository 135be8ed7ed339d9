import { decodeJwt } from 'jose';
import { describe, expect, it } from 'vitest';
import { generateKeyFiles } from '../keys/generate-key-files.js';
import { MissingKeyError } from '../keys/key-errors.js';
import { parseKeyRing } from '../keys/key-ring.js';
import { canonicalBytes, sha256Hex } from './canonical-json.js';
import { FIRST_LINK, linkAfter, receiptHash, signReceipt } from './receipt-chain.js';
import { receiptSchema, stateOfPlaces } from './receipt.js';
import { aFinalOutcome, aHead, aPlace, aTargetOutcome, DIGEST } from '../../test/support/receipts.js';
import {
  assertReceiptWillFit,
  finalReceipt,
  InvalidReceiptError,
  MAX_RECEIPT_BYTES,
  ReceiptTooLargeError,
  targetReceipt,
} from './write-receipt.js';

const files = generateKeyFiles();
const worker = parseKeyRing(files.worker, 'worker.keys.json');

describe('WF-22: the receipt of a target', () => {
  it('has the fields of the contract', () => {
    expect(targetReceipt(aHead(), aTargetOutcome())).toEqual({
      format_version: 1,
      kind: 'target',
      tenant: 'shop',
      request_id: '01993c1e-0000-7000-8000-00000000000a',
      receipt_id: '01993c1e-0001-7000-8000-000000000001',
      sequence: 1,
      previous_hash: null,
      inventory_digest: DIGEST,
      level: 'logical',
      verified_at: '2025-11-30T12:00:00.123456Z',
      target: 'operational',
      target_kind: 'postgres',
      handler_version: 1,
      plan_digest: DIGEST,
      places: [
        {
          place: 'customer',
          action: 'delete',
          basis: null,
          counted: 7,
          removed: 7,
          anonymized: 0,
          pseudonymized: 0,
          retained: 0,
          retained_until: null,
          superseded: 0,
          left: 0,
        },
      ],
      state: 'erased',
      physical: {
        cleanup: [{ place: 'customer', did: ['vacuum', 'analyze'], left: ['STATISTICS_OF_EMPTY_TABLE'] }],
        wal_horizon: null,
        backup_horizon: 'P30D',
        identifiers_unreadable_from: 'sealing_key_destroyed',
      },
    });
  });

  it.each([
    ['delete', { removed: 5, anonymized: 0, pseudonymized: 0 }],
    ['anonymize', { removed: 0, anonymized: 5, pseudonymized: 0 }],
    ['pseudonymize', { removed: 0, anonymized: 0, pseudonymized: 5 }],
    ['retain', { removed: 0, anonymized: 0, pseudonymized: 0 }],
  ] as const)('WF-20, WF-21: counts what %s did, as counted minus left, under its own name', (action, counts) => {
    const outcome = aTargetOutcome({ places: [aPlace({ action, counted: 7, left: 2 })] });
    expect(targetReceipt(aHead(), outcome).places[0]).toMatchObject(counts);
  });

  it.each([
    ['erased', [{}, { counted: 0 }]],
    ['absent', [{ counted: 0 }, { counted: 0 }]],
    ['retained', [{ counted: 0 }, { retained: 1 }, { superseded: 1 }]],
    ['superseded', [{ counted: 0 }, { superseded: 1 }]],
    ['incomplete', [{ left: 1 }, { retained: 1 }]],
  ] as const)('derives the state %s', (state, places) => {
    const receipt = targetReceipt(
      aHead(),
      aTargetOutcome({ places: places.map((place, at) => aPlace({ ...place, place: `p${at}` })) }),
    );
    expect(receipt.state).toBe(state);
    expect(stateOfPlaces(receipt.places)).toBe(state);
  });

  it.each<[string, () => unknown, string]>([
    [
      'more left than counted',
      () => targetReceipt(aHead(), aTargetOutcome({ places: [aPlace({ counted: 1, left: 2 })] })),
      'places.0.removed',
    ],
    [
      'a fraction',
      () => targetReceipt(aHead(), aTargetOutcome({ places: [aPlace({ retained: 0.5 })] })),
      'places.0.retained',
    ],
    ['a place twice', () => targetReceipt(aHead(), aTargetOutcome({ places: [aPlace(), aPlace()] })), 'places'],
    [
      'a local time',
      () => targetReceipt(aHead({ verifiedAt: '2025-11-30T12:00:00+01:00' }), aTargetOutcome()),
      'verified_at',
    ],
    [
      'an id that is no UUIDv7',
      () => targetReceipt(aHead({ receiptId: '9b2b9c0e-7a3f-4c0f-9a6a-0a3b8f1f9d11' }), aTargetOutcome()),
      'receipt_id',
    ],
    [
      'a first receipt that links back',
      () => targetReceipt(aHead({ link: { sequence: 1, previousHash: DIGEST } }), aTargetOutcome()),
      'previous_hash',
    ],
    [
      'a later one that does not',
      () => targetReceipt(aHead({ link: { sequence: 2, previousHash: null } }), aTargetOutcome()),
      'previous_hash',
    ],
    [
      'a digest in capitals',
      () => targetReceipt(aHead({ inventoryDigest: DIGEST.toUpperCase() }), aTargetOutcome()),
      'inventory_digest',
    ],
    ['a line break in a name', () => targetReceipt(aHead(), aTargetOutcome({ target: 'a\nb' })), 'target'],
    [
      'nobody',
      () => finalReceipt(aHead(), aFinalOutcome({ subject: { reference: 'jane@example.com' } })),
      'subject_reference',
    ],
    ['no approval', () => finalReceipt(aHead(), aFinalOutcome({ approvals: [] })), 'approvals'],
  ])('is not written with %s', (_name, write, field) => {
    expect(write).toThrow(InvalidReceiptError);
    expect(write).toThrow(`its field ${field} does not`);
    expect(write).not.toThrow(/jane/);
  });
});

describe('WF-22: the final receipt', () => {
  it('covers approved digests, approvals, resurrections and how many receipts there are', () => {
    const head = aHead({ link: { sequence: 3, previousHash: DIGEST } });
    expect(finalReceipt(head, aFinalOutcome())).toMatchObject({
      kind: 'final',
      workflow: 'erasure',
      workflow_version: 1,
      approved: [{ revision: 1, inventory_digest: DIGEST }],
      approvals: [{ inventory_digest: DIGEST, approved_by: 'operator-b', approved_at: '2025-11-30T11:00:00Z' }],
      targets: [{ target: 'operational', resurrections: 0 }],
      receipts: 2,
      status: 'complete',
      receipt_token: null,
      physical: { identifiers_unreadable_from: { rule: 'sealing_key_destroyed', at: '2025-12-01T00:00:00Z' } },
    });
  });

  it('WF-5: has the receipt token in place of the reference', () => {
    const token = `token1.token-a.${'A'.repeat(43)}`;
    const receipt = finalReceipt(aHead(), aFinalOutcome({ subject: { receiptToken: token } }));
    expect(receipt).toMatchObject({ subject_reference: null, receipt_token: token });
    expect(receiptSchema.safeParse({ ...receipt, subject_reference: `ref1.a.${'A'.repeat(43)}` }).success).toBe(false);
    expect(receiptSchema.safeParse({ ...receipt, receipt_token: null }).success).toBe(false);
  });
});

describe('the size of a receipt', () => {
  const places = (many: number) => Array.from({ length: many }, (_, at) => aPlace({ place: `schema.table_${at}` }));

  it('is bounded, with an error that says what to do', () => {
    const write = (many: number) => targetReceipt(aHead(), aTargetOutcome({ places: places(many), cleanup: [] }));
    expect(canonicalBytes(write(300)).length).toBeLessThanOrEqual(MAX_RECEIPT_BYTES);
    expect(() => write(600)).toThrow(ReceiptTooLargeError);
    expect(() => write(600)).toThrow(
      /^The receipt of target operational takes \d+ bytes, and 65536 is the most; divide/,
    );
  });

  it('is told before anything is deleted: what fits then fits in the end', () => {
    const fits = (many: number): boolean => {
      try {
        assertReceiptWillFit('operational', 'postgres', places(many));
        return true;
      } catch (error) {
        if (error instanceof ReceiptTooLargeError) return false;
        throw error;
      }
    };
    let [most, tooMany] = [1, 600];
    expect([fits(most), fits(tooMany)]).toEqual([true, false]);
    while (tooMany - most > 1) {
      const middle = Math.floor((most + tooMany) / 2);
      if (fits(middle)) most = middle;
      else tooMany = middle;
    }
    expect(most).toBeGreaterThan(100);
    const full = places(most).map((place) => ({
      ...place,
      counted: 10 ** 12,
      retained: 10 ** 12,
      retainedUntil: '2035-01-01',
    }));
    const cleanup = full.map(({ place }) => ({
      place,
      did: ['vacuum', 'analyze'],
      left: ['NOT_OWNER', 'STATISTICS_OF_EMPTY_TABLE'],
    }));
    expect(() => targetReceipt(aHead(), aTargetOutcome({ places: full, cleanup }))).not.toThrow();
  });
});

describe('the chain', () => {
  it('links each receipt to the signed text of the one before', async () => {
    expect(linkAfter(null)).toEqual(FIRST_LINK);
    const first = await signReceipt(worker, targetReceipt(aHead(), aTargetOutcome()));
    expect(first.hash).toBe(sha256Hex(first.jws));
    expect(receiptHash(first.jws)).toBe(first.hash);
    const link = linkAfter({ sequence: first.receipt.sequence, hash: first.hash });
    expect(link).toEqual({ sequence: 2, previousHash: first.hash });
    const last = await signReceipt(worker, finalReceipt(aHead({ link, n: 2 }), aFinalOutcome()));
    expect(last.receipt.previous_hash).toBe(first.hash);
    expect(decodeJwt(last.jws)).toEqual(last.receipt);
  });

  it('is signed by the worker alone, and never with a receipt that is none', async () => {
    const receipt = targetReceipt(aHead(), aTargetOutcome());
    await expect(signReceipt(parseKeyRing(files.client, 'client.keys.json'), receipt)).rejects.toThrow(MissingKeyError);
    await expect(signReceipt(worker, { ...receipt, sequence: 0 })).rejects.toThrow(InvalidReceiptError);
    await expect(signReceipt(worker, { ...receipt, email: 'x' } as typeof receipt)).rejects.toThrow(
      InvalidReceiptError,
    );
  });
});
