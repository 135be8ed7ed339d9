import { describe, expect, it } from 'vitest';
import { generateKeyFiles } from '../keys/generate-key-files.js';
import { MissingKeyError } from '../keys/key-errors.js';
import { parseKeyRing } from '../keys/key-ring.js';
import { matchesReceiptToken, receiptToken, RECEIPT_TOKEN_FORM } from './receipt-token.js';

const files = generateKeyFiles();
const worker = parseKeyRing(files.worker, 'worker.keys.json');
const INPUT = { requestId: '01993c1e-0000-7000-8000-000000000001', reference: 'ref1.ref-a.MAC' };

describe('WF-5: a receipt token', () => {
  const token = receiptToken(worker, INPUT);

  it('is confirmed for its own request and reference only', () => {
    expect(matchesReceiptToken(worker, token, INPUT)).toBe(true);
    expect(matchesReceiptToken(worker, token, { ...INPUT, reference: 'ref1.ref-a.OTHER' })).toBe(false);
    expect(matchesReceiptToken(worker, token, { ...INPUT, requestId: '01993c1e-0000-7000-8000-000000000002' })).toBe(
      false,
    );
    expect(matchesReceiptToken(worker, `${token.slice(0, -2)}AA`, INPUT)).toBe(false);
    expect(matchesReceiptToken(worker, 'ref1.ref-a.MAC', INPUT)).toBe(false);
  });

  it('carries nothing of the reference, and nothing in common with another request of the same subject', () => {
    expect(token).toMatch(RECEIPT_TOKEN_FORM);
    expect(token).not.toContain('MAC');
    const other = receiptToken(worker, { ...INPUT, requestId: '01993c1e-0000-7000-8000-000000000002' });
    expect(other.split('.')[2]).not.toBe(token.split('.')[2]);
  });

  it('needs its key', () => {
    const otherWorker = parseKeyRing(generateKeyFiles().worker, 'worker.keys.json');
    expect(() => matchesReceiptToken(otherWorker, token, INPUT)).toThrow(MissingKeyError);
    expect(() => receiptToken(parseKeyRing(files.client, 'client.keys.json'), INPUT)).toThrow(MissingKeyError);
    expect(receiptToken(otherWorker, INPUT).split('.')[2]).not.toBe(token.split('.')[2]);
  });

  it('is found by the id of an older key', () => {
    const next = generateKeyFiles().worker.receipt_token;
    const rotated = parseKeyRing(
      {
        ...files.worker,
        receipt_token: { current: next.current, keys: { ...files.worker.receipt_token.keys, ...next.keys } },
      },
      'worker.keys.json',
    );
    expect(matchesReceiptToken(rotated, token, INPUT)).toBe(true);
    expect(receiptToken(rotated, INPUT)).toContain(next.current);
  });
});
