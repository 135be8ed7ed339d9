/** The shape that API users see (WF-0), derived from the durable rows and never stored beside them. */
import type { StageRow } from '../requests/request.js';
import type { RequestStatus } from '../requests/request.js';
import type { Snapshot } from '../requests/snapshot.js';
import { inChainOrder } from '../engine/history.js';
import type { JsonObject } from '../storage/json.js';
import type { ErasureInventory, InventoryTarget } from '../workflows/erasure/inventory.js';

export type DeletionTarget = 'operational' | 'analytical' | 'search' | 'generated-artifacts';
export type TargetStatus = 'pending' | 'running' | 'complete' | 'failed';

export type DeletionRequest<T extends string = DeletionTarget> = {
  requestId: string;
  subjectReference: string;
  createdAt: string;
  status: 'pending' | 'running' | 'complete' | 'failed';
  targets: Record<T, TargetStatus>;
};

/** Every internal status in one of four words; `docs/reference.md` explains them. The compiler sees that none is missing. */
const PUBLIC_STATUS: Readonly<Record<RequestStatus, DeletionRequest['status']>> = {
  submitted: 'pending',
  approved: 'pending',
  running: 'running',
  waiting: 'running',
  retry_wait: 'running',
  awaiting_approval: 'running',
  held: 'running',
  completed: 'complete',
  blocked: 'failed',
  cancelled: 'failed',
};

export function publicRequest<T extends string>({ request, inventories, stages }: Snapshot): DeletionRequest<T> {
  const current = inventories.find(({ inventory_digest }) => inventory_digest === request.inventory_digest);
  const targets = (current?.inventory as unknown as ErasureInventory | undefined)?.targets ?? [];
  const chain = inChainOrder(stages);
  const statuses = targets.map((target) => [target.name, targetStatus(target, chain, request.status)] as const);
  return {
    requestId: request.id,
    subjectReference: request.subject_reference ?? '',
    createdAt: request.created_at.toISOString(),
    status: PUBLIC_STATUS[request.status],
    targets: Object.fromEntries(statuses) as Record<T, TargetStatus>,
  };
}

/** `complete` once its erase is verified under the present plan; `failed` while an operator has to look. */
function targetStatus(
  { name, plan_digest }: InventoryTarget,
  chain: readonly StageRow[],
  status: RequestStatus,
): TargetStatus {
  const last = chain.findLast(
    ({ stage, target_community_id }) => (stage === 'revoke' || stage === 'erase') && target_community_id === name,
  );
  const result = last?.metadata_json.result;
  if (last?.stage === 'erase' && result?.['state'] === 'done' && isUnder(plan_digest, result)) return 'complete';
  if (status === 'cancelled') return 'failed';
  if (status === 'blocked' && (last?.is_current === true || result?.['state'] === 'failed')) return 'failed';
  return last === undefined ? 'pending' : 'running';
}

/** Another plan may have places that nobody has looked at. */
function isUnder(planDigest: string, result: JsonObject): boolean {
  return (result['plan_digest'] ?? planDigest) === planDigest;
}
