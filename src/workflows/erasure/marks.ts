/** The tombstone of a request, as its saved gate intent and its opened subject make it. */
import { v4 as randomUuid } from 'uuid';
import { z } from 'zod';
import { describeError } from '../../observe/describe-error.js';
import { isExpungeError } from '../../observe/expunge-error.js';
import type { StageRun } from '../../engine/workflow.js';
import type { Mark, MarkResult } from '../../registry/registry.js';
import type { JsonObject } from '../../storage/json.js';
import { referencesToWrite } from '../../subject/reference.js';
import type { ErasureDependencies } from './dependencies.js';
import type { OpenRun, StageBatch } from './stage-batch.js';

const intentSchema = z.strictObject({ generation: z.int().positive(), group_id: z.guid() });

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

/** @throws MissingKeyError where the ring lacks a key that tombstones are written under. */
export function referencesOf(deps: ErasureDependencies, open: OpenRun): readonly string[] {
  return referencesToWrite(deps.ring, { tenant: deps.settings.tenant, identifier: open.subject.key });
}

export function marksOf(deps: ErasureDependencies, opens: readonly OpenRun[]): readonly Mark[] {
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
  if (opens.length === 0) return new Map();
  try {
    return await operation(marksOf(deps, opens));
  } catch (error) {
    if (isExpungeError(error, 'DATABASE_UNAVAILABLE') || isExpungeError(error, 'MISSING_KEY')) throw error;
    const { code } = describeError(error);
    deps.log.error('registry_mark_failed', { code });
    deps.counters.add('expunge_registry_mark_failures_total', { backend: deps.database.kind });
    for (const { id } of opens) {
      batch.finish(id, {
        kind: 'postponed',
        why: `REGISTRY_UNAVAILABLE: the registry did not answer (${code})`,
        delaySeconds: 5,
      });
    }
    return new Map();
  }
}
