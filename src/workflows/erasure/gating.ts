/**
 * What happens to a target between the tombstone and its first delete: locators are resolved and sealed, and what is there is
 * compared with what was approved (WF-7, WF-17). In the gate for every target that answers, so that one which needs a new
 * approval is known early; and again right before the first delete, since days may have passed.
 */
import type { HandlerContext, StageRun } from '../../engine/workflow.js';
import { saveSealed, type SealedPart } from '../../requests/sealed.js';
import { Sealer } from '../../keys/seal.js';
import type { JsonObject } from '../../storage/json.js';
import { TargetError } from '../../targets/target-error.js';
import { type CountAnswers, type CountSubject, countTargets } from './count-targets.js';
import type { ErasureDependencies } from './dependencies.js';
import { eraseIntentOf } from './erase-intent.js';
import { type CountedTarget, type ErasureInventory, type InventoryTarget, rowsOf } from './inventory.js';
import { type Locators, sealLocators } from './sealed-subjects.js';
import type { OpenRun, StageBatch } from './stage-batch.js';

/**
 * Counts `names` for `opens`, and seals what was resolved before anything else happens. A target whose erase has begun is
 * left out: it is not looked at again (WF-18), and what it still knows is less than what was sealed.
 */
export async function gateTargets(
  deps: ErasureDependencies,
  batch: StageBatch,
  names: readonly string[],
  context: HandlerContext,
  opens: readonly OpenRun[] = batch.live,
): Promise<ReadonlyMap<string, CountAnswers>> {
  const subjects = new Map(opens.map((open) => [open.id, gateSubject(open, names)]));
  const answers = await countTargets(deps.targets, names, subjects, context.signal);
  const sealer = new Sealer(deps.ring);
  const sealed = opens.flatMap((open) => newlyResolved(sealer, open, subjects.get(open.id) as CountSubject));
  const progress = new Map(opens.map((open) => [open.id, { cursor: gatedCursor(open.run, answers.get(open.id)) }]));
  const saved = await context.save(progress, (tx, ids) =>
    saveSealed(
      tx,
      sealed.filter(({ requestId }) => ids.has(requestId)),
    ),
  );
  batch.keepOf(opens, saved);
  for (const { id } of opens) {
    batch.remember(id, progress.get(id) ?? {});
    batch.resolve(id, subjects.get(id)?.resolved ?? new Map());
  }
  return answers;
}

export function countSubject({ subject }: Pick<OpenRun, 'subject'>): CountSubject {
  return { identifiers: subject.identifiers, resolved: new Map(subject.resolved) };
}

function gateSubject(open: OpenRun, names: readonly string[]): CountSubject {
  const without = new Set(names.filter((name) => eraseIntentOf(open.run, name) !== null));
  return { ...countSubject(open), without, resolvesAgain: true };
}

function newlyResolved(sealer: Sealer, { id, subject }: OpenRun, { resolved }: CountSubject): readonly SealedPart[] {
  const fresh = [...resolved].filter(([source, locators]) => hasMore(locators, subject.resolved.get(source)));
  return fresh.map(([source, locators]) => sealLocators(sealer, id, source, locators));
}

function hasMore(now: Locators, before: Locators | undefined): boolean {
  return (
    before === undefined || Object.entries(now).some(([name, values]) => values.length > (before[name]?.length ?? -1))
  );
}

/** For whoever looks: which targets answered the last gate of this stage. */
function gatedCursor({ stage }: StageRun, answers: CountAnswers | undefined): JsonObject {
  const before = (stage.metadata_json.cursor ?? {}) as JsonObject;
  const gated = [...(answers ?? [])].filter(([, answer]) => !(answer instanceof TargetError)).map(([name]) => name);
  return { ...before, gated: gated.sort() };
}

/**
 * Where more is there than was approved: places that grew by more than the approved bound, or, where the growth of many
 * places exceeds the rows that the request may delete, those that grew (WF-7, WF-9).
 */
export function driftOf(run: StageRun, answers: CountAnswers): readonly string[] {
  const { targets, bounds } = run.inventory as unknown as ErasureInventory;
  const grown = targets.flatMap((approved) => {
    const answer = answers.get(approved.name);
    return answer === undefined || answer instanceof TargetError ? [] : growth(approved, answer);
  });
  const total = rowsOf(targets) + grown.reduce((sum, { rows }) => sum + rows, 0);
  const isOver = total > bounds.rows;
  return grown.filter(({ rows }) => rows > bounds.drift || (isOver && rows > 0)).map(({ place }) => place);
}

function growth(
  approved: InventoryTarget,
  { counts }: CountedTarget,
): { readonly place: string; readonly rows: number }[] {
  const before = new Map(approved.places.map(({ place, count }) => [place, count]));
  return counts.map(({ place, matched }) => ({
    place: `${approved.name}.${place}`,
    rows: matched - (before.get(place) ?? 0),
  }));
}
