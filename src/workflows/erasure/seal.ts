/** The end: the final receipt is signed, the tombstone gets its expiry; the terminal transition stores and destroys (WF-5). */
import { z } from 'zod';
import type { Handler, StageRun } from '../../engine/workflow.js';
import { signReceipt } from '../../evidence/receipt-chain.js';
import { receiptToken } from '../../evidence/receipt-token.js';
import { finalReceipt, type ReceiptHead } from '../../evidence/write-receipt.js';
import { insertReceipts, type ReceiptRow } from '../../requests/receipts.js';
import { readApprovalsOf, readInventoriesOf } from '../../requests/read.js';
import type { ApprovalRow, InventoryRow, StageRow } from '../../requests/request.js';
import { destroySealed, forgetIntents, replaceReferences } from '../../requests/sealed.js';
import type { Ending } from '../../requests/move.js';
import type { Queries } from '../../storage/database.js';
import { isSettled } from './coverage.js';
import type { ErasureDependencies } from './dependencies.js';
import { type ErasureInventory, WORKFLOW, WORKFLOW_VERSION } from './inventory.js';
import { requireMarks } from './marks.js';
import { type OpenRun, StageBatch } from './stage-batch.js';
import { receiptHeads, receiptRow } from './target-receipts.js';

const rowSchema = z.strictObject({
  id: z.string(),
  request_id: z.string(),
  sequence: z.int(),
  target: z.null(),
  receipt: z.string(),
  receipt_hash: z.string(),
  previous_hash: z.string().nullable(),
});

export function sealHandler(deps: ErasureDependencies): Handler {
  return async (runs, context) => {
    const batch = await StageBatch.open(runs, deps);
    // A revision may have added a target since this was decided.
    for (const { id, run } of batch.live) {
      if (!isSettled(run.history, run.inventory)) batch.finish(id, { kind: 'completed', result: { state: 'open' } });
    }
    await requireMarks(deps, batch, (marks) => deps.registry.complete(marks, deps.settings.tombstoneSeconds));
    context.signal.throwIfAborted();
    const receipts = await signFinalReceipts(deps, batch.live);
    for (const { id } of batch.live) {
      batch.finish(id, {
        kind: 'completed',
        result: { state: 'done', receipt: { ...(receipts.get(id) as ReceiptRow) } },
      });
    }
    return { outcomes: batch.outcomes };
  };
}

async function signFinalReceipts(
  deps: ErasureDependencies,
  opens: readonly OpenRun[],
): Promise<ReadonlyMap<string, ReceiptRow>> {
  if (opens.length === 0) return new Map();
  const ids = opens.map(({ id }) => id);
  const approvals = byRequest(await readApprovalsOf(deps.database, ids));
  const inventories = byRequest(await readInventoriesOf(deps.database, ids));
  const heads = await receiptHeads(deps, opens);
  const signed = opens.map(async ({ id, run }) => {
    const own = { approvals: approvals.get(id) ?? [], inventories: inventories.get(id) ?? [] };
    const receipt = finalReceipt(
      heads.get(id) as ReceiptHead,
      finalOutcome(deps, run, own.approvals, own.inventories, heads.get(id) as ReceiptHead),
    );
    const { jws, hash } = await signReceipt(deps.ring, receipt);
    return [id, receiptRow(receipt, null, jws, hash)] as const;
  });
  return new Map(await Promise.all(signed));
}

function byRequest<R extends { readonly request_id: string }>(rows: readonly R[]): ReadonlyMap<string, readonly R[]> {
  const groups = new Map<string, R[]>();
  for (const row of rows) {
    const group = groups.get(row.request_id);
    if (group === undefined) groups.set(row.request_id, [row]);
    else group.push(row);
  }
  return groups;
}

function finalOutcome(
  deps: ErasureDependencies,
  run: StageRun,
  approvals: readonly ApprovalRow[],
  inventories: readonly InventoryRow[],
  head: ReceiptHead,
): Parameters<typeof finalReceipt>[1] {
  const approved = new Set(approvals.map(({ inventory_digest }) => inventory_digest));
  const { settings } = deps;
  const unreadable = new Date(new Date(head.verifiedAt).getTime() + settings.backupHorizonSeconds * 1000);
  return {
    workflow: WORKFLOW,
    workflowVersion: WORKFLOW_VERSION,
    subject: settings.receiptToken
      ? { receiptToken: tokenOf(deps, run) }
      : { reference: run.request.subject_reference ?? '' },
    approved: inventories
      .filter(({ inventory_digest }) => approved.has(inventory_digest))
      .map(({ revision, inventory_digest }) => ({ revision, inventoryDigest: inventory_digest })),
    approvals: approvals.map(({ inventory_digest, approved_by, approved_at }) => ({
      inventoryDigest: inventory_digest,
      approvedBy: approved_by,
      approvedAt: approved_at.toISOString(),
    })),
    targets: coveredTargets(run).map((name) => ({ target: name, resurrections: resurrectionsOf(run, name) })),
    identifiersUnreadableFrom: { rule: 'horizons_passed', at: unreadable.toISOString() },
  };
}

/** Those of the inventory, and those that have a receipt although a revision has dropped them since. */
function coveredTargets({ inventory, history }: StageRun): readonly string[] {
  const { targets } = inventory as unknown as ErasureInventory;
  const erased = history.flatMap(({ stage, place, result }) =>
    stage === 'erase' && place !== null && result?.['state'] === 'done' ? [place] : [],
  );
  return [...new Set([...targets.map(({ name }) => name), ...erased])];
}

function resurrectionsOf({ history }: StageRun, target: string): number {
  const visits = history.filter(({ stage, place }) => stage === 'settle' && place === target);
  return visits.reduce((sum, { result }) => sum + Number(result?.['resurrections'] ?? 0), 0);
}

function tokenOf(deps: ErasureDependencies, { request }: Pick<StageRun, 'request'>): string {
  return receiptToken(deps.ring, { requestId: request.id, reference: request.subject_reference ?? '' });
}

/**
 * Commits with the terminal transition: the final receipt is stored, and what leads back to the subject is destroyed: the
 * sealed identifiers with the digest's salt, operators' free text, the generations and the group by which the request could
 * be matched with its tombstone, and, where configured, the reference.
 */
export async function endErasures(
  tx: Queries,
  endings: readonly Ending[],
  deps: Pick<ErasureDependencies, 'ring' | 'settings'>,
): Promise<void> {
  const completed = endings.filter(({ status }) => status === 'completed');
  await insertReceipts(tx, completed.map(sealedReceiptOf));
  const ids = endings.map(({ requestId }) => requestId);
  await destroySealed(tx, ids);
  await forgetIntents(tx, ids, ['gate', 'ungate']);
  if (!deps.settings.receiptToken) return;
  const replacements = endings.map(({ requestId, status, snapshot }) => ({
    requestId,
    reference:
      status === 'completed'
        ? receiptToken(deps.ring, { requestId, reference: snapshot.request.subject_reference ?? '' })
        : null,
  }));
  await replaceReferences(tx, replacements);
}

function sealedReceiptOf({ requestId, snapshot }: Ending): ReceiptRow {
  const seal = snapshot.stages.find((stage: StageRow) => stage.is_current && stage.stage === 'seal');
  const receipt = seal?.metadata_json.result?.['receipt'];
  if (receipt === undefined) throw new Error(`Request ${requestId} ends without a final receipt.`);
  return rowSchema.parse(receipt);
}
