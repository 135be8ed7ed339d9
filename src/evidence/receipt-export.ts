/**
 * An export of the receipts of one request, which an auditor verifies off-line:
 * `{"format": "expunge-receipts", "version": 1, "receipts": ["<jws>", …]}`, in the order of the chain. Nothing outside the
 * signatures is relied on.
 */
import { z } from 'zod';

/** The most receipts that an export may hold. */
export const MAX_EXPORTED_RECEIPTS = 10_000;

const exportSchema = z.strictObject({
  format: z.literal('expunge-receipts'),
  version: z.literal(1),
  receipts: z.array(z.unknown()).max(MAX_EXPORTED_RECEIPTS),
});

/** The export of one request's receipts. @param receipts - the signed receipts, in the order of their chain. */
export function exportReceipts(receipts: readonly string[]): string {
  return `${JSON.stringify({ format: 'expunge-receipts', version: 1, receipts }, null, 2)}\n`;
}

/** The entries of an export, whatever they are, or null where it is none. Never throws. */
export function readReceiptExport(exported: unknown): readonly unknown[] | null {
  try {
    const text = exported instanceof Uint8Array ? new TextDecoder('utf-8', { fatal: true }).decode(exported) : exported;
    return typeof text === 'string' ? exportSchema.parse(JSON.parse(text)).receipts : null;
  } catch {
    return null;
  }
}
