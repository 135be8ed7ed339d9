/** The tombstone of a request, as its saved gate intent and its opened subject make it. */
import { v4 as randomUuid } from 'uuid';
import { z } from 'zod';
import { sendAgain } from '../../engine/database-fault.js';
import type { Outcome, StageRun } from '../../engine/workflow.js';
import { describeError } from '../../observe/describe-error.js';
import { isExpungeError } from '../../observe/expunge-error.js';
import type { Mark, MarkResult } from '../../registry/registry.js';
import type { JsonObject } from '../../storage/json.js';
import { referencesToWrite } from '../../subject/reference.js';
import type { ErasureDependencies } from './dependencies.js';
import type { OpenRun, StageBatch } from './stage-batch.js';

const intentSchema = z.strictObject({ generation: z.int().positive(), group_id: z.guid() });

/** How long to wait for a registry that does not answer, in seconds. */
const REGISTRY_PAUSE_SECONDS = 5;

/** Saved before the generation is used (REG-10). */
export function newGateIntent(generation: number): JsonObject {
  return { generation, group_id: randomUuid() };
}

/** The intent of the request's gate: of the stage that runs, or of an earlier gate. */
export function gateIntentOf({ stage, history }: StageRun): z.infer<typeof intentSchema> | null {
  const own = stage.stage === 'gate' ? stage.metadata_json.intent : undefined;
  const saved = own ?? history.find((record) => record.stage === 'gate' && record.intent !== undefined)?.intent;
  return saved === undefined ? null : intentSchema.parse(saved);
}

/** New generations by request id; none where the registry does not answer. */
export async function proposeGenerations(
  deps: ErasureDependencies,
  batch: StageBatch,
  opens: readonly OpenRun[],
): Promise<ReadonlyMap<string, number>> {
  const propose = () =>
    deps.registry.proposeGenerations(new Map(opens.map((open) => [open.id, referencesOf(deps, open)])));
  return (await answerOfRegistry(deps, batch, opens, propose)) ?? new Map();
}

/**
 * Applies a registry operation to all that is under way. A registry that does not answer postpones: nothing goes on
 * without its word.
 */
export async function withRegistry(
  deps: ErasureDependencies,
  batch: StageBatch,
  operation: (marks: readonly Mark[]) => Promise<ReadonlyMap<string, MarkResult>>,
  opens: readonly OpenRun[] = batch.live,
): Promise<ReadonlyMap<string, MarkResult>> {
  const apply = () => operation(marksOf(deps, opens));
  return (await answerOfRegistry(deps, batch, opens, apply)) ?? new Map();
}

/**
 * The same where nothing can be done without a tombstone: a request that has none in the registry fails.
 * @returns the runs whose subject has a newer generation: what is there may be theirs.
 */
export async function requireMarks(
  deps: ErasureDependencies,
  batch: StageBatch,
  operation: (marks: readonly Mark[]) => Promise<ReadonlyMap<string, MarkResult>>,
  opens: readonly OpenRun[] = batch.live,
): Promise<readonly OpenRun[]> {
  const results = await withRegistry(deps, batch, operation, opens);
  for (const { id } of opens) if (results.get(id) === 'missing') batch.finish(id, TOMBSTONE_MISSING);
  return opens.filter(({ id }) => results.get(id) === 'superseded');
}

const TOMBSTONE_MISSING: Outcome = {
  kind: 'failed',
  error: 'TOMBSTONE_MISSING: the registry has no tombstone of this request any more, so that nothing may be deleted',
  retryable: false,
};

/** @throws MissingKeyError where the ring lacks a key that tombstones are written under (REG-15). */
function referencesOf(deps: ErasureDependencies, open: OpenRun): readonly string[] {
  return referencesToWrite(deps.ring, { tenant: deps.settings.tenant, identifier: open.subject.key });
}

function marksOf(deps: ErasureDependencies, opens: readonly OpenRun[]): readonly Mark[] {
  return opens.map((open) => {
    const intent = gateIntentOf(open.run);
    if (intent === null) throw new Error(`Request ${open.id} has no gate intent.`);
    return {
      requestId: open.id,
      groupId: intent.group_id,
      references: referencesOf(deps, open),
      generation: intent.generation,
    };
  });
}

/** Null where it did not answer, or could not be asked: the runs have ended with that. */
async function answerOfRegistry<T>(
  deps: ErasureDependencies,
  batch: StageBatch,
  opens: readonly OpenRun[],
  ask: () => Promise<T>,
): Promise<T | null> {
  if (opens.length === 0) return null;
  try {
    return await sendAgain(ask);
  } catch (error) {
    if (isExpungeError(error, 'DATABASE_UNAVAILABLE')) throw error;
    const { code, message } = describeError(error);
    deps.log.error('registry_mark_failed', { code });
    deps.counters.add('expunge_registry_mark_failures_total', { backend: deps.database.kind });
    const isKey = isExpungeError(error, 'MISSING_KEY');
    for (const { id } of opens) {
      batch.finish(
        id,
        isKey
          ? { kind: 'failed', error: `${code}: ${message}`, retryable: false }
          : {
              kind: 'postponed',
              why: `REGISTRY_UNAVAILABLE: the registry did not answer (${code})`,
              delaySeconds: REGISTRY_PAUSE_SECONDS,
            },
      );
    }
    return null;
  }
}
