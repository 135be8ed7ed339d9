/** Whether receipts, each of them genuine, agree with themselves and with one another. */
import type { Finding } from './finding.js';
import {
  APPLIED,
  stateOfPlaces,
  type FinalReceipt,
  type PlaceReceipt,
  type Receipt,
  type TargetReceipt,
} from './receipt.js';

/** A receipt whose signature and form are good, and its position in the export. */
export interface Genuine<R extends Receipt = Receipt> {
  readonly index: number;
  readonly receipt: R;
  /** The hash of its signed text. */
  readonly hash: string;
}

/** Counts again what a target's receipt says (contract WF-20, WF-21). */
export function checkCounts({ index, receipt }: Genuine<TargetReceipt>): Finding[] {
  const findings: Finding[] = [];
  receipt.places.forEach((place, position) => {
    if (!isConsistent(place)) {
      findings.push({
        code: 'WRONG_COUNT',
        index,
        message: `Receipt ${index} says of its place ${position} that something else was done than what was counted minus what is left.`,
      });
    }
    if (place.left > 0) {
      findings.push({
        code: 'COPIES_LEFT',
        index,
        message: `Receipt ${index} says that ${place.left} copies are left in its place ${position}, so that the target is not finished.`,
      });
    }
  });
  if (receipt.state !== stateOfPlaces(receipt.places)) {
    findings.push({
      code: 'WRONG_STATE',
      index,
      message: `Receipt ${index} gives its target a state that does not follow from its places.`,
    });
  }
  return findings;
}

function isConsistent(place: PlaceReceipt): boolean {
  const applied = APPLIED[place.action];
  return (['removed', 'anonymized', 'pseudonymized'] as const).every(
    (field) => place[field] === (field === applied ? place.counted - place.left : 0),
  );
}

/** Whether the final receipt covers exactly the targets, and only approved inventories. */
export function checkFinal(final: Genuine<FinalReceipt>, targets: readonly Genuine<TargetReceipt>[]): Finding[] {
  return [...checkApprovals(final, targets), ...checkTotals(final, targets)];
}

function checkApprovals(
  { index, receipt }: Genuine<FinalReceipt>,
  targets: readonly Genuine<TargetReceipt>[],
): Finding[] {
  const findings: Finding[] = [];
  const listed = new Set(receipt.approved.map((revision) => revision.inventory_digest));
  const consented = new Set(receipt.approvals.map((approval) => approval.inventory_digest));
  for (const { revision, inventory_digest } of receipt.approved) {
    if (consented.has(inventory_digest)) continue;
    findings.push({
      code: 'NOT_APPROVED',
      index,
      message: `Receipt ${index} lists revision ${revision} of the inventory as approved, without an approval of it.`,
    });
  }
  receipt.approvals.forEach((approval, position) => {
    if (listed.has(approval.inventory_digest)) return;
    findings.push({
      code: 'STRAY_APPROVAL',
      index,
      message: `Approval ${position} in receipt ${index} is of an inventory that is not among the approved ones.`,
    });
  });
  for (const worked of [...targets, { index, receipt }]) {
    if (listed.has(worked.receipt.inventory_digest)) continue;
    findings.push({
      code: 'NOT_APPROVED',
      index: worked.index,
      message: `Receipt ${worked.index} names an inventory that is not among the approved ones of the final receipt.`,
    });
  }
  return findings;
}

function checkTotals({ index, receipt }: Genuine<FinalReceipt>, targets: readonly Genuine<TargetReceipt>[]): Finding[] {
  const findings: Finding[] = [];
  if (receipt.receipts !== receipt.sequence - 1) {
    findings.push({
      code: 'WRONG_TOTAL',
      index,
      message: `The final receipt ${index} counts ${receipt.receipts} receipts before it, and stands at place ${receipt.sequence}.`,
    });
  }
  const covered = new Set(receipt.targets.map(({ target }) => target));
  const proven = new Set(targets.map((it) => it.receipt.target));
  // Where receipts are missing, that is a finding already, and which targets they were of is not known.
  const complete = targets.length === receipt.sequence - 1;
  const unproven = complete ? [...covered].filter((target) => !proven.has(target)).length : 0;
  const uncovered = [...proven].filter((target) => !covered.has(target)).length;
  if (unproven > 0 || uncovered > 0) {
    findings.push({
      code: 'WRONG_TOTAL',
      index,
      message: `The final receipt ${index} names ${unproven} targets that have no receipt, and leaves out ${uncovered} that have one.`,
    });
  }
  return findings;
}
