/** Erases in bounded slices, each with its cursor saved under the lease, until the target says that nothing is left (WF-15). */
import type { HandlerContext } from '../../engine/workflow.js';
import type { JsonObject, JsonValue } from '../../storage/json.js';
import { TargetError, TargetFailedError } from '../../targets/target-error.js';
import type { EraseProgress, EraseSubject } from '../../targets/target.js';
import { answerFor, answersOrFault, callTarget } from './call-target.js';
import { batchOf } from './count-targets.js';
import type { ErasureDependencies } from './dependencies.js';
import { countSubject } from './gating.js';
import { approvedTarget } from './inventory.js';
import type { OpenRun, StageBatch } from './stage-batch.js';

/** Slices in a row without a row removed or a cursor moved, after which a target counts as stuck. */
const MOST_IDLE_SLICES = 3;

interface Erasing {
  readonly open: OpenRun;
  readonly subject: EraseSubject;
  idle: number;
}

/** Ends the runs whose target fails; what is still under way in `batch` afterwards believes that it is done. */
export async function eraseInSlices(
  deps: ErasureDependencies,
  batch: StageBatch,
  opens: readonly OpenRun[],
  name: string,
  context: HandlerContext,
): Promise<void> {
  let open = start(deps, batch, opens, name);
  while (open.size > 0) {
    context.signal.throwIfAborted();
    // What is not owned any more is not this worker's to judge either.
    const lost = [...open.values()].filter(({ open: { id } }) => !context.owns(id)).map((item) => item.open);
    batch.setAside(lost);
    for (const { id } of lost) open.delete(id);
    if (open.size === 0) return;
    const subjects = new Map([...open].map(([ref, { subject }]) => [ref, subject]));
    const options = { limit: deps.settings.sliceRows };
    const answers = await answersOrFault(subjects, () =>
      callTarget(name, context.signal, (signal) => deps.targets.get(name).erase(subjects, { ...options, signal })),
    );
    open = await afterSlice(batch, name, open, (ref) => answerFor(name, ref, answers), context);
  }
}

function start(
  deps: ErasureDependencies,
  batch: StageBatch,
  opens: readonly OpenRun[],
  name: string,
): Map<string, Erasing> {
  const { batch: subjects, waiting } = batchOf(
    deps.targets,
    name,
    new Map(opens.map((open) => [open.id, countSubject(open)])),
  );
  const erasing = new Map<string, Erasing>();
  for (const open of opens) {
    const fault = waiting.get(open.id);
    const subject = subjects.get(open.id);
    if (fault !== undefined) batch.fail(open, fault);
    else if (subject !== undefined) {
      erasing.set(open.id, { open, subject: { ...subject, cursor: lastCursor(open, name) }, idle: 0 });
    }
  }
  return erasing;
}

/**
 * Where the last slice of this target ended under the present plan: in this stage, or in the visit before it unless that one
 * found rows left.
 */
function lastCursor({ run }: OpenRun, name: string): JsonValue {
  const { plan_digest } = approvedTarget(run, name);
  const own = cursorOf(run.stage.metadata_json.cursor, plan_digest);
  if (own !== undefined) return own;
  const visits = run.history.filter(({ stage, place }) => stage === run.stage.stage && place === name);
  const before = visits.at(-1);
  return before?.result?.['state'] === 'postponed' ? (cursorOf(before.cursor, plan_digest) ?? null) : null;
}

function cursorOf(saved: JsonValue | undefined, planDigest: string): JsonValue | undefined {
  const cursor = saved as JsonObject | undefined;
  return cursor?.['plan_digest'] === planDigest ? cursor['erase'] : undefined;
}

async function afterSlice(
  batch: StageBatch,
  name: string,
  erasing: ReadonlyMap<string, Erasing>,
  answer: (ref: string) => EraseProgress | TargetError,
  context: HandlerContext,
): Promise<Map<string, Erasing>> {
  const next = new Map<string, Erasing>();
  const cursors = new Map<string, { cursor: JsonObject }>();
  for (const [ref, item] of erasing) {
    const progress = answer(ref);
    if (progress instanceof TargetError) {
      batch.fail(item.open, progress);
      continue;
    }
    const before = item.open.run.stage.metadata_json.cursor as JsonObject | undefined;
    const { plan_digest } = approvedTarget(item.open.run, name);
    cursors.set(ref, { cursor: { ...before, plan_digest, erase: progress.cursor } });
    if (progress.done) continue;
    const idle = isIdle(item, progress) ? item.idle + 1 : 0;
    if (idle >= MOST_IDLE_SLICES) batch.fail(item.open, stuck(name));
    else next.set(ref, { ...item, subject: { ...item.subject, cursor: progress.cursor }, idle });
  }
  await batch.save(context, cursors);
  const live = new Set(batch.live.map(({ id }) => id));
  for (const ref of next.keys()) if (!live.has(ref)) next.delete(ref);
  return next;
}

function isIdle({ subject }: Erasing, progress: EraseProgress): boolean {
  return (
    progress.reported.every(({ rows }) => rows === 0) &&
    JSON.stringify(progress.cursor) === JSON.stringify(subject.cursor)
  );
}

function stuck(name: string): TargetError {
  return new TargetFailedError(
    `Target ${name} makes no progress: its erase removes nothing, moves no cursor, and does not end.`,
    {
      target: name,
      cause: 'NO_PROGRESS',
    },
  );
}
