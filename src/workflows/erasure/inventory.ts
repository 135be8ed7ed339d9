/** What an erasure will delete where, as it is approved (WF-6). Counts and names only; the subject stands in it as a commitment. */
import { z } from 'zod';
import { ExpungeError, type ErrorOutcome } from '../../observe/expunge-error.js';
import { inventoryDigest } from '../../evidence/inventory-digest.js';
import { planDigest } from '../../evidence/plan-digest.js';
import { RequestRefusedError } from '../../requests/request-error.js';
import type { JsonObject } from '../../storage/json.js';
import type { Place, PlaceCount, TargetDeclaration } from '../../targets/target.js';
import type { ErasureSettings } from './settings.js';

export const WORKFLOW = 'erasure';
export const WORKFLOW_VERSION = 1;
const INVENTORY_VERSION = 1;

const digest = z.string().regex(/^[0-9a-f]{64}$/);
const count = z.int().min(0);

const placeSchema = z.strictObject({
  place: z.string().min(1),
  action: z.enum(['delete', 'anonymize', 'pseudonymize', 'retain']),
  basis: z.string().nullable(),
  count,
  retained: count,
});

const targetSchema = z.strictObject({
  name: z.string().min(1),
  kind: z.string().min(1),
  handler_version: z.int().min(0),
  plan_digest: digest,
  /** Whether it has sessions or tokens to revoke. */
  revokes: z.boolean(),
  /** The targets that it needs locators of. */
  needs: z.array(z.string()),
  places: z.array(placeSchema).min(1),
});

const schema = z.strictObject({
  version: z.literal(INVENTORY_VERSION),
  workflow: z.literal(WORKFLOW),
  commitment: digest,
  targets: z.array(targetSchema).min(1).max(1_000),
  bounds: z.strictObject({ rows: count, drift: count }),
  settle_seconds: z.number().min(0),
  counted_at: z.iso.datetime(),
});

export type ErasureInventory = z.infer<typeof schema>;
export type InventoryTarget = z.infer<typeof targetSchema>;

export class InventoryError extends ExpungeError {
  readonly code = 'INVALID_INVENTORY';
  readonly outcome: ErrorOutcome = 'refused';
}

/** More than one request may delete (WF-9). */
export class BoundsExceededError extends ExpungeError {
  readonly code = 'BOUNDS_EXCEEDED';
  readonly outcome: ErrorOutcome = 'refused';
}

/** What was found in one target, where the inventory is counted. */
export interface CountedTarget {
  readonly places: readonly Place[];
  readonly counts: readonly PlaceCount[];
}

/**
 * @param kept - targets that stay as they were approved, by name; the others are in `counted`.
 * @throws BoundsExceededError where more is there than a request may delete.
 */
export function buildInventory(
  settings: ErasureSettings,
  commitment: string,
  counted: ReadonlyMap<string, CountedTarget>,
  countedAt: Date,
  kept: ReadonlyMap<string, InventoryTarget> = new Map(),
): ErasureInventory {
  const targets = Object.keys(settings.targets).map(
    (name) => kept.get(name) ?? inventoryTarget(settings, name, counted.get(name) as CountedTarget),
  );
  requireWithinBounds(targets, settings.bounds.rows);
  return {
    version: INVENTORY_VERSION,
    workflow: WORKFLOW,
    commitment,
    targets,
    bounds: { ...settings.bounds },
    settle_seconds: settings.settleSeconds,
    counted_at: countedAt.toISOString(),
  };
}

export function inventoryTarget(
  settings: ErasureSettings,
  name: string,
  { places, counts }: CountedTarget,
): InventoryTarget {
  const declaration = settings.targets[name];
  if (declaration === undefined) throw new Error(`Target ${name} is not configured.`);
  const found = new Map(counts.map((place) => [place.place, place]));
  return {
    name,
    kind: declaration.kind,
    handler_version: declaration.handlerVersion,
    plan_digest: presentPlan(declaration),
    revokes: declaration.revokes,
    needs: [...new Set(Object.values(declaration.locators).map(({ target }) => target))],
    places: places.map(({ place, action, basis }) => ({
      place,
      action,
      basis,
      count: found.get(place)?.matched ?? 0,
      retained: found.get(place)?.retained ?? 0,
    })),
  };
}

/** A target as it stands in an inventory that was read before. */
export function approvedTarget({ inventory }: { readonly inventory: JsonObject }, target: string): InventoryTarget {
  const found = (inventory as unknown as ErasureInventory).targets.find(({ name }) => name === target);
  if (found === undefined) throw new Error(`Target ${target} is not in the inventory.`);
  return found;
}

/** How many copies the targets hold that are to be deleted or changed. */
export function rowsOf(targets: readonly InventoryTarget[]): number {
  return targets.flatMap(({ places }) => places).reduce((sum, { count: rows }) => sum + rows, 0);
}

/** @throws BoundsExceededError naming the fullest place. */
export function requireWithinBounds(targets: readonly InventoryTarget[], limit: number): void {
  const total = rowsOf(targets);
  if (total <= limit) return;
  const places = targets.flatMap(({ name, places: of }) => of.map((place) => ({ ...place, target: name })));
  const fullest = places.reduce((most, place) => (place.count > most.count ? place : most));
  throw new BoundsExceededError(
    `${total} copies would be deleted and bounds.rows allows ${limit} a request; most, ${fullest.count}, are in ${fullest.place} of target ${fullest.target}: raise the bound if that is right.`,
  );
}

/**
 * @throws RequestRefusedError UNREGISTERED_VERSION for a version that this program does not know (EX-27); InventoryError.
 */
export function readInventory(inventory: JsonObject, requestId: string): ErasureInventory {
  if (inventory['version'] !== INVENTORY_VERSION) {
    throw new RequestRefusedError(
      'UNREGISTERED_VERSION',
      `The inventory of request ${requestId} has a version that this program does not know: use the program that has it.`,
      requestId,
    );
  }
  const parsed = schema.safeParse(inventory);
  if (parsed.success) return parsed.data;
  const path = parsed.error.issues[0]?.path.map(String).join('.') ?? '';
  throw new InventoryError(
    `The inventory of request ${requestId} is not valid at ${path === '' ? 'its top' : path}: a person has to look.`,
  );
}

/** Needs neither key nor salt: the commitment stands in the inventory (EX-25). */
export function digestOf(inventory: JsonObject, requestId: string): string {
  const { version, commitment } = readInventory(inventory, requestId);
  return inventoryDigest({
    schemaVersion: version,
    workflow: WORKFLOW,
    workflowVersion: WORKFLOW_VERSION,
    commitment,
    inventory,
  });
}

/** Asked at every transition of every request, and a declaration does not change. */
const plans = new WeakMap<TargetDeclaration, string>();

export function presentPlan(declaration: TargetDeclaration): string {
  const digested = plans.get(declaration) ?? planDigest(declaration);
  plans.set(declaration, digested);
  return digested;
}

/**
 * Whether the configuration would still do what was approved (WF-6).
 * @throws RequestRefusedError PLAN_CHANGED, with both digests.
 */
export function requireSamePlan(settings: ErasureSettings, inventory: ErasureInventory, requestId: string): void {
  const approved = new Map(inventory.targets.map((target) => [target.name, target.plan_digest]));
  const names = new Set([...approved.keys(), ...Object.keys(settings.targets)]);
  for (const name of names) {
    const declaration = settings.targets[name];
    const present = declaration === undefined ? 'none' : presentPlan(declaration);
    const then = approved.get(name) ?? 'none';
    if (present !== then) {
      throw new RequestRefusedError(
        'PLAN_CHANGED',
        `The plan of target ${name} is not the one that was approved for request ${requestId} (approved ${then}, present ${present}): put it back, or run expunge revise ${requestId} and have the new revision approved.`,
        requestId,
      );
    }
  }
}
