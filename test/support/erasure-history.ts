/** Histories of erasures as plain values, grown by the policy itself or forged by hand, for tests of what it decides. */
import type { StageRecord } from '../../src/engine/history.js';
import type { PolicyInput } from '../../src/engine/workflow.js';
import type { JsonObject, JsonValue } from '../../src/storage/json.js';
import type { ErasureInventory } from '../../src/workflows/erasure/inventory.js';
import { erasurePolicy } from '../../src/workflows/erasure/policy.js';

export interface PlannedTarget {
  readonly name: string;
  readonly revokes?: boolean;
  /** One hexadecimal digit that stands for the whole plan. */
  readonly plan?: string;
}

export function inventoryOf(targets: readonly PlannedTarget[], { settleSeconds = 0 } = {}): ErasureInventory {
  return {
    version: 1,
    workflow: 'erasure',
    commitment: 'c'.repeat(64),
    targets: targets.map(({ name, revokes = false, plan = 'a' }) => ({
      name,
      kind: 'postgres',
      handler_version: 1,
      plan_digest: planOf(plan),
      revokes,
      needs: [],
      places: [{ place: 'customer', action: 'delete', basis: null, count: 1, retained: 0 }],
    })),
    bounds: { rows: 10_000, drift: 100 },
    settle_seconds: settleSeconds,
    counted_at: '2026-01-01T00:00:00.000Z',
  };
}

export function planOf(digit: string): string {
  return digit.repeat(64);
}

export const BEGINNING = new Date('2026-01-01T12:00:00.000Z');

export function later(milliseconds: number, than: Date = BEGINNING): Date {
  return new Date(than.getTime() + milliseconds);
}

export type Decided = ReturnType<typeof erasurePolicy.decide>;

/** What a handler or the engine saves of a stage. */
export interface Saved {
  readonly result: JsonObject;
  readonly intent?: JsonValue;
}

export const done = (plan = 'a'): Saved => ({ result: { state: 'done', plan_digest: planOf(plan) } });
export const erased = (plan = 'a'): Saved => ({ ...done(plan), intent: { plan_digest: planOf(plan), places: [] } });
export const drift: Saved = { result: { state: 'drift' } };
export const cancelled: Saved = { result: { cancelled: true } };
export const failed = (error = 'TARGET_FAILED: it failed', retryable = true): Saved => ({
  result: { state: 'failed', error, retryable },
});
export const postponed = (until: Date, why = 'TARGET_UNAVAILABLE: it is away'): Saved => ({
  result: { state: 'postponed', until: until.toISOString(), why },
});
export const gated: Saved = { result: { state: 'done' }, intent: { generation: 1, group_id: 'g' } };
export const ok: Saved = { result: { state: 'done' } };
export const sealed: Saved = { result: { state: 'done', receipt: {} } };

/** A request whose stages are decided by the policy and whose outcomes are a test's. */
export class Erasure {
  inventory: ErasureInventory;
  history: readonly StageRecord[] = [];
  now: Date = BEGINNING;
  unblockedAt: Date | null = null;
  isCancelled = false;

  constructor(inventory: ErasureInventory) {
    this.inventory = inventory;
  }

  get input(): PolicyInput {
    return {
      requestId: 'r',
      target: null,
      now: this.now,
      inventory: this.inventory,
      inventoryDigest: 'd'.repeat(64),
      history: this.history,
      isCancelled: this.isCancelled,
      unblockedAt: this.unblockedAt,
    };
  }

  decide(): Decided {
    return erasurePolicy.decide(this.input);
  }

  /** Enters the stage that the policy decides for; at a wait, time passes until it is over. */
  enter(): Extract<Decided, { kind: 'enter' }> {
    const decision = this.decide();
    if (decision.kind !== 'enter') throw new Error(`It ends, ${decision.status}.`);
    this.now = decision.wait?.until ?? this.now;
    this.history = [
      ...this.history.slice(0, -1),
      ...this.history.slice(-1).map((last) => ({ ...last, transition: { ...decision.transition } })),
      {
        id: `00000000-0000-7000-8000-${String(this.history.length + 1).padStart(12, '0')}`,
        stage: decision.stage,
        place: decision.place,
        status: 'pending',
        inputs: decision.inputs,
        inventory: this.inventory,
        intent: undefined,
        cursor: undefined,
        result: undefined,
        transition: undefined,
        finishedAt: null,
      },
    ];
    return decision;
  }

  /** Saves what came of the current stage; a second passes. */
  save({ result, intent }: Saved): this {
    this.now = later(1_000, this.now);
    this.history = this.history.map((record, index) =>
      index < this.history.length - 1
        ? record
        : { ...record, status: 'completed', result, intent: intent ?? record.intent, finishedAt: this.now },
    );
    return this;
  }

  /** Enters and saves, one after the other. */
  pass(...outcomes: readonly Saved[]): this {
    for (const outcome of outcomes) {
      this.enter();
      this.save(outcome);
    }
    return this;
  }
}

/** `erase operational`, `gate`, `completed`: what was decided, in a word or two. */
export function inWords(decision: Decided): string {
  if (decision.kind === 'end') return decision.status;
  const { stage, place, wait } = decision;
  return `${stage}${place === null ? '' : ` ${place}`}${wait === undefined ? '' : `, ${wait.status}`}`;
}
