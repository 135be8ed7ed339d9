/** Receipts of verified targets, signed before the transaction that stores them (WF-22). */
import { v7 as uuidv7 } from 'uuid';
import { linkAfter, signReceipt } from '../../evidence/receipt-chain.js';
import { type PlaceOutcome, type ReceiptHead, targetReceipt } from '../../evidence/write-receipt.js';
import { readClock } from '../../requests/clock.js';
import { readLastReceipts, type ReceiptRow } from '../../requests/receipts.js';
import type { Cleanup } from '../../targets/target.js';
import type { ErasureDependencies } from './dependencies.js';
import { approvedTarget } from './inventory.js';
import type { OpenRun } from './stage-batch.js';

/** A target that an independent read has shown to be clean. */
export interface VerifiedTarget {
  readonly open: OpenRun;
  readonly places: readonly PlaceOutcome[];
  readonly cleanup: readonly Cleanup[];
}

/** By request id. */
export async function signTargetReceipts(
  deps: ErasureDependencies,
  name: string,
  verified: readonly VerifiedTarget[],
): Promise<ReadonlyMap<string, ReceiptRow>> {
  if (verified.length === 0) return new Map();
  const heads = await receiptHeads(
    deps,
    verified.map(({ open }) => open),
  );
  const signed = verified.map(async ({ open, places, cleanup }) => {
    const { kind, handler_version, plan_digest } = approvedTarget(open.run, name);
    const receipt = targetReceipt(heads.get(open.id) as ReceiptHead, {
      target: name,
      targetKind: kind,
      handlerVersion: handler_version,
      planDigest: plan_digest,
      places,
      cleanup,
      identifiersUnreadableFrom: 'horizons_passed',
    });
    const { jws, hash } = await signReceipt(deps.ring, receipt);
    return [open.id, receiptRow(receipt, name, jws, hash)] as const;
  });
  return new Map(await Promise.all(signed));
}

/** What the next receipt of each request says first. One clock read, by the database, for all of them. */
export async function receiptHeads(
  deps: ErasureDependencies,
  opens: readonly OpenRun[],
): Promise<ReadonlyMap<string, ReceiptHead>> {
  const now = await readClock(deps.database);
  const last = await readLastReceipts(
    deps.database,
    opens.map(({ id }) => id),
  );
  return new Map(
    opens.map(({ id, run }) => {
      const before = last.get(id);
      const link = linkAfter(before === undefined ? null : { sequence: before.sequence, hash: before.receipt_hash });
      return [
        id,
        {
          link,
          tenant: deps.settings.tenant,
          requestId: id,
          receiptId: uuidv7(),
          inventoryDigest: run.request.inventory_digest ?? '',
          verifiedAt: now.toISOString(),
          walHorizon: null,
          backupHorizon: deps.settings.backupHorizon,
        },
      ];
    }),
  );
}

export function receiptRow(
  receipt: {
    readonly receipt_id: string;
    readonly request_id: string;
    readonly sequence: number;
    readonly previous_hash: string | null;
  },
  target: string | null,
  jws: string,
  hash: string,
): ReceiptRow {
  return {
    id: receipt.receipt_id,
    request_id: receipt.request_id,
    sequence: receipt.sequence,
    target,
    receipt: jws,
    receipt_hash: hash,
    previous_hash: receipt.previous_hash,
  };
}
