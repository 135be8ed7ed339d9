/**
 * Holds saved rows against the rules before anything is decided from them (EX-10, EX-11): whether each stage could have been
 * entered after those before it, under the inventory that it names. Which of several visits came first depended on a clock
 * and is not asked. One pass, since a history can have thousands of visits.
 */
import { HistoryError, type StageRecord } from '../../engine/history.js';
import { isMark, VISIT_STAGES, visitResult } from './coverage.js';
import type { ErasureInventory, InventoryTarget } from './inventory.js';

/** @throws HistoryError naming the first row that does not fit. */
export function checkHistory({ history }: { readonly history: readonly StageRecord[] }): void {
  const walk = new Walk();
  for (const record of history) {
    const misfit = misplaced(record) ?? walk.refusal(record);
    if (misfit !== null) throw new HistoryError(record.id, misfit);
    if (record.result !== undefined) checkResult(record);
    walk.pass(record);
  }
}

function misplaced({ stage, place, inputs, inventory }: StageRecord): string | null {
  if (!['gate', ...VISIT_STAGES, 'seal', 'ungate'].includes(stage)) {
    return `is of a stage, ${stage}, that erasures do not have`;
  }
  if ((inputs['target'] ?? null) !== place) return 'has another target in its inputs than in its column';
  const needsTarget = stage === 'revoke' || stage === 'erase';
  if (needsTarget ? place === null : stage !== 'settle' && place !== null) {
    return 'has a target where its stage has none, or none where it needs one';
  }
  if (place !== null && targetOf(inventory, place) === undefined) {
    return 'visits a target that the approved inventory does not have';
  }
  return null;
}

function checkResult(record: StageRecord): void {
  if (record.result?.['cancelled'] === true) return;
  if (record.place !== null) {
    visitResult(record);
    return;
  }
  const state = record.result?.['state'];
  // A seal or a mark that met a target which a revision had added goes back to the visits.
  const mayBeOpen = record.stage === 'seal' || record.stage === 'settle';
  if (state === 'done' || (mayBeOpen && state === 'open')) return;
  throw new HistoryError(record.id, 'is completed without a known result');
}

/** What is known of the stages that were passed. */
class Walk {
  #last: StageRecord | null = null;
  #isGated = false;
  #hasGateIntent = false;
  #hasEraseIntent = false;
  /** Whether something has drifted since the last gate. */
  #hasDrifted = false;
  /** Whether every erase was marked as verified since the last of them. */
  #isMarked = false;
  /** Stage, target and plan of every visit that was done. */
  readonly #done = new Set<string>();

  pass(record: StageRecord): void {
    const { stage, place, intent, result } = record;
    this.#last = record;
    if (stage === 'gate') {
      this.#hasGateIntent ||= intent !== undefined;
      if (record.status === 'completed') {
        this.#isGated = true;
        this.#hasDrifted = false;
      }
    }
    if (stage === 'erase') {
      this.#hasEraseIntent ||= intent !== undefined;
      this.#isMarked = false;
    }
    const state = result?.['state'];
    if (isMark(record)) this.#isMarked = state === 'done';
    if (place === null) return;
    if (state === 'drift') this.#hasDrifted = true;
    if (state === 'done') this.#done.add(JSON.stringify([stage, place, result?.['plan_digest']]));
  }

  /** Why the stage could not be entered after those that were passed; null where it could. */
  refusal(record: StageRecord): string | null {
    const last = this.#last;
    if (last === null) return record.stage === 'gate' ? null : 'is first, and an erasure begins with its gate';
    if (last.stage === 'ungate' || (last.stage === 'seal' && last.result?.['state'] === 'done')) {
      return `comes after the ${last.stage}, which is the last stage`;
    }
    if (record.stage !== 'ungate' && last.result?.['cancelled'] === true) return 'goes on after a cancel';
    return this.#misplaced(record) ?? misdecided(last, record);
  }

  #misplaced(record: StageRecord): string | null {
    const inventory = record.inventory as unknown as ErasureInventory;
    switch (record.stage) {
      case 'gate':
        return this.#hasDrifted ? null : 'is a second gate, without anything that had drifted';
      case 'ungate':
        if (this.#hasEraseIntent) return 'undoes the gate after an erase had begun';
        return this.#hasGateIntent ? null : 'undoes a gate that had not begun';
      case 'seal':
        return this.#isMarked && this.#areDone('erase', inventory) && this.#areDone('settle', inventory)
          ? null
          : 'seals what is not settled';
      case 'settle':
        if (!this.#areDone('erase', inventory)) return 'settles what is not erased';
        if (record.place !== null) return this.#isMarked ? this.#misvisited(record) : 'settles what is not marked';
        return this.#isMarked ? 'marks as erased what is marked already' : null;
      default:
        return this.#misvisited(record);
    }
  }

  #misvisited({ stage, place, inventory }: StageRecord): string | null {
    const target = targetOf(inventory, place ?? '') as InventoryTarget;
    if (!this.#isGated) return 'visits a target before the gate';
    if (this.#isDone(stage, target)) return 'visits a target again that was done';
    if (stage === 'revoke' && !target.revokes) return 'revokes where nothing is to be revoked';
    if (stage === 'erase' && target.revokes && !this.#isDone('revoke', target))
      return 'erases before access was revoked';
    return null;
  }

  #areDone(stage: string, { targets }: ErasureInventory): boolean {
    return targets.every((target) => this.#isDone(stage, target));
  }

  #isDone(stage: string, target: InventoryTarget): boolean {
    return this.#done.has(JSON.stringify([stage, target.name, target.plan_digest]));
  }
}

/** The saved decision on the stage before, which names what followed. */
function misdecided({ transition }: StageRecord, { stage, place }: StageRecord): string | null {
  const decisions: Readonly<Record<string, string>> = { gate: 'drift', seal: 'settled', ungate: 'cancel' };
  const decision = decisions[stage] ?? (place === null ? 'erased' : 'visit');
  const fits = transition?.['decision'] === decision && (transition['target'] ?? null) === place;
  return fits ? null : `follows a saved decision that does not lead to its stage, ${stage}`;
}

function targetOf(inventory: StageRecord['inventory'], name: string): InventoryTarget | undefined {
  return (inventory as unknown as ErasureInventory).targets.find((target) => target.name === name);
}
