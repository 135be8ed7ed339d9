/**
 * What happens to each target between the tombstone and its first delete: locators are resolved and sealed, and what is there
 * is compared with what was approved (WF-7, WF-17). In the gate for every target that answers; at its first visit for one
 * that did not.
 */
import type { HandlerContext, StageRun } from '../../engine/workflow.js';
import { insertSealed, type SealedPart } from '../../requests/sealed.js';
import type { JsonObject } from '../../storage/json.js';
import { TargetError } from '../../targets/target-error.js';
import { type CountAnswers, type CountSubject, countTargets } from './count-targets.js';
import type { ErasureDependencies } from './dependencies.js';
import type { CountedTarget, ErasureInventory, InventoryTarget } from './inventory.js';
import { sealLocators } from './sealed-subjects.js';
import type { OpenRun, StageBatch } from './stage-batch.js';

/** Counts `names` for everything under way, and seals what was resolved before anything else happens. */
export async function gateTargets(
  deps: ErasureDependencies,
  batch: StageBatch,
  names: readonly string[],
  context: HandlerContext,
): Promise<ReadonlyMap<string, CountAnswers>> {
  const subjects = new Map(batch.live.map((open) => [open.id, countSubject(open)]));
  const answers = await countTargets(deps.targets, names, subjects, context.signal);
  const sealed: SealedPart[] = [];
  for (const open of batch.live)
    sealed.push(...(await newlyResolved(deps, open, subjects.get(open.id) as CountSubject)));
  const progress = new Map(
    batch.live.map((open) => [open.id, { cursor: gatedCursor(open.run, answers.get(open.id)) }]),
  );
  const saved = await context.save(progress, (tx, ids) =>
    insertSealed(
      tx,
      sealed.filter(({ requestId }) => ids.has(requestId)),
    ),
  );
  batch.keep(saved);
  for (const { id } of batch.live) {
    batch.remember(id, progress.get(id) ?? {});
    batch.resolve(id, subjects.get(id)?.resolved ?? new Map());
  }
  return answers;
}

export function countSubject({ subject }: Pick<OpenRun, 'subject'>): CountSubject {
  return { identifiers: subject.identifiers, resolved: new Map(subject.resolved) };
}

async function newlyResolved(
  deps: ErasureDependencies,
  { id, subject }: OpenRun,
  counted: CountSubject,
): Promise<SealedPart[]> {
  const fresh = [...counted.resolved].filter(([source]) => !subject.resolved.has(source));
  return Promise.all(fresh.map(([source, values]) => sealLocators(deps.ring, id, source, values)));
}

/** The cursor of a gate, and the first part of a visit's: which targets are gated. */
function gatedCursor({ stage }: StageRun, answers: CountAnswers | undefined): JsonObject {
  const before = (stage.metadata_json.cursor ?? {}) as JsonObject;
  const gated = [...(answers ?? [])].filter(([, answer]) => !(answer instanceof TargetError)).map(([name]) => name);
  return { ...before, gated: [...new Set([...gatedIn(before), ...gated])].sort() };
}

function gatedIn(cursor: unknown): readonly string[] {
  const gated = (cursor as { gated?: unknown } | undefined)?.gated;
  return Array.isArray(gated) ? gated.filter((name) => typeof name === 'string') : [];
}

/** Whether a target was gated under the present revision, or its erase has begun, so that there is nothing to compare any more. */
export function isGated({ request, stage, history }: StageRun, target: string): boolean {
  const isBegun = history.some(
    (record) => record.stage === 'erase' && record.place === target && record.intent !== undefined,
  );
  if (isBegun || stage.metadata_json.intent !== undefined) return true;
  return history.some(
    ({ stage: name, result, cursor }) =>
      name === 'gate' && result?.['inventory_digest'] === request.inventory_digest && gatedIn(cursor).includes(target),
  );
}

/** The places of a target that grew by more than the bound since they were approved (WF-7). */
export function driftOf(approved: InventoryTarget, counted: CountedTarget, bound: number): readonly string[] {
  const before = new Map(approved.places.map(({ place, count }) => [place, count]));
  return counted.counts
    .filter(({ place, matched }) => matched - (before.get(place) ?? 0) > bound)
    .map(({ place }) => place);
}

export function approvedTarget({ inventory }: StageRun, target: string): InventoryTarget {
  const found = (inventory as unknown as ErasureInventory).targets.find(({ name }) => name === target);
  if (found === undefined) throw new Error(`Target ${target} is not in the inventory.`);
  return found;
}
