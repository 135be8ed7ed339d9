import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { HistoryError, type StageRecord } from '../../engine/history.js';
import type { PolicyInput } from '../../engine/workflow.js';
import type { JsonObject } from '../../storage/json.js';
import { COMMUNITY_B as B, COMMUNITY_C as C } from './inventory.js';
import { userDeletionPolicy } from './policy.js';

const TARGET = 'demo:alpha';

function inventoryOf(communities: readonly string[]): JsonObject {
  return {
    version: 1,
    workflow: 'user-deletion',
    target: TARGET,
    communities: communities.map((id) => ({ id, role: 'participant' })),
  };
}

const INVENTORY: JsonObject = {
  ...inventoryOf([]),
  communities: [
    { id: B, role: 'participant' },
    { id: C, role: 'former_participant' },
  ],
};

function inputOf(history: readonly StageRecord[], more: Partial<PolicyInput> = {}): PolicyInput {
  return {
    requestId: '01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f',
    target: TARGET,
    now: new Date('2026-01-01T00:00:00Z'),
    inventory: INVENTORY,
    inventoryDigest: 'd'.repeat(64),
    history,
    isCancelled: false,
    unblockedAt: null,
    ...more,
  };
}

/** A completed stage that was decided by the policy itself. */
function take(input: PolicyInput, result: JsonObject): PolicyInput {
  const decision = userDeletionPolicy.decide(input);
  if (decision.kind !== 'enter') throw new Error('the history has ended');
  const before = input.history.slice(0, -1);
  const left = input.history.slice(-1).map((record) => ({ ...record, transition: decision.transition }));
  const record: StageRecord = {
    id: `stage-${input.history.length}`,
    stage: decision.stage,
    place: decision.place,
    status: 'completed',
    inputs: decision.inputs,
    inventory: input.inventory,
    intent: undefined,
    cursor: undefined,
    result,
    transition: undefined,
    finishedAt: null,
  };
  return { ...input, history: [...before, ...left, record] };
}

const begin = inputOf([]);
const gated = take(begin, { gated: true });
const bWithAgents = take(gated, { has_agents: true });
const bWithoutAgents = take(gated, { has_agents: false });
const bPurged = take(bWithAgents, { purged: true });
const cWithAgents = take(bPurged, { has_agents: true });
const cWithoutAgents = take(bPurged, { has_agents: false });
const cPurged = take(cWithAgents, { purged: true });

const inputsFor = (id: string, role: string) => ({ target: TARGET, community: { id, role } });

describe('decide', () => {
  test.each([
    [
      'nothing yet',
      begin,
      { kind: 'enter', stage: 'gate_user', place: null, inputs: { target: TARGET }, transition: { decision: 'begin' } },
    ],
    [
      'gate_user',
      gated,
      {
        kind: 'enter',
        stage: 'purge_db',
        place: B,
        inputs: inputsFor(B, 'participant'),
        transition: { decision: 'enter_communities' },
      },
    ],
    [
      'purge_db with agents',
      bWithAgents,
      {
        kind: 'enter',
        stage: 'purge_agents',
        place: B,
        inputs: inputsFor(B, 'participant'),
        transition: { decision: 'purge_agents', community: B },
      },
    ],
    [
      'purge_db without agents',
      bWithoutAgents,
      {
        kind: 'enter',
        stage: 'purge_db',
        place: C,
        inputs: inputsFor(C, 'former_participant'),
        transition: { decision: 'community_complete', community: B },
      },
    ],
    [
      'purge_agents',
      bPurged,
      {
        kind: 'enter',
        stage: 'purge_db',
        place: C,
        inputs: inputsFor(C, 'former_participant'),
        transition: { decision: 'community_complete', community: B },
      },
    ],
    [
      'the last community, with agents',
      cPurged,
      { kind: 'end', status: 'completed', transition: { decision: 'community_complete', community: C } },
    ],
    [
      'the last community, without agents',
      cWithoutAgents,
      { kind: 'end', status: 'completed', transition: { decision: 'community_complete', community: C } },
    ],
  ] as const)('EX-10: after %s', (_name, input, expected) => {
    expect(userDeletionPolicy.decide(input)).toEqual(expected);
  });

  test('a cancel before the gate ends at once', () => {
    expect(userDeletionPolicy.decide({ ...begin, isCancelled: true })).toMatchObject({
      kind: 'end',
      status: 'cancelled',
    });
  });

  test('OP-9: a gate that was closed by a cancel ends the request as cancelled', () => {
    const cancelled = take(begin, { cancelled: true });
    expect(userDeletionPolicy.decide(cancelled)).toMatchObject({ kind: 'end', status: 'cancelled' });
  });

  test.each([
    ['is missing', {}],
    ['is null', { has_agents: null }],
    ['is text', { has_agents: 'false' }],
    ['is a number', { has_agents: 0 }],
  ])('a has_agents that %s is an error, never a skip', (_name, result) => {
    const input = take(gated, result);
    expect(() => userDeletionPolicy.decide(input)).toThrow(HistoryError);
    expect(() => userDeletionPolicy.decide(input)).toThrow('has no saved has_agents');
  });

  test('1,000 communities are covered one after the other, in the order of the inventory', () => {
    const ids = Array.from(
      { length: 1000 },
      (_, index) => `00000000-0000-0000-0000-${String(index).padStart(12, '0')}`,
    );
    const inventory = inventoryOf(ids);
    let input = take(inputOf([], { inventory }), { gated: true });
    for (const id of ids.slice(0, 3)) {
      input = take(input, { has_agents: true });
      expect(input.history.at(-1)?.place).toBe(id);
      input = take(input, { purged: true });
    }
    // The rest is written down as the policy would, to keep this test linear.
    const rest = ids.slice(3).flatMap((id, index): StageRecord[] => {
      const template = input.history.at(-1) as StageRecord;
      const inputs = { target: TARGET, community: { id, role: 'participant' } };
      const isLast = index === ids.length - 4;
      const made = {
        ...template,
        id: `rest-${id}`,
        stage: 'purge_db',
        place: id,
        inputs,
        result: { has_agents: false },
      };
      return [{ ...made, transition: isLast ? undefined : { decision: 'community_complete', community: id } }];
    });
    const left = {
      ...(input.history.at(-1) as StageRecord),
      transition: { decision: 'community_complete', community: ids[2] ?? '' },
    };
    const whole = { ...input, history: [...input.history.slice(0, -1), left, ...rest] };
    expect(userDeletionPolicy.decide(whole)).toMatchObject({ kind: 'end', status: 'completed' });
  });
});

describe('EX-11: a saved history that the rules do not lead to is an error that names the row', () => {
  const forge = (input: PolicyInput, index: number, change: Partial<StageRecord>): PolicyInput => ({
    ...input,
    history: input.history.map((record, at) => (at === index ? { ...record, ...change } : record)),
  });
  const other = '00000000-0000-0000-0000-0000000000ff';

  test.each<[string, PolicyInput, string, string]>([
    ['an unknown stage', forge(gated, 0, { stage: 'purge_everything' }), 'stage-0', 'is of a stage, purge_everything'],
    [
      'a beginning without a gate',
      forge(bWithAgents, 0, { stage: 'purge_db', place: B }),
      'stage-0',
      'is not the stage',
    ],
    ['a second gate', forge(bWithAgents, 1, { stage: 'gate_user', place: null }), 'stage-1', 'is not the stage'],
    ['a community out of order', forge(bWithAgents, 1, { place: C }), 'stage-1', 'is not the stage'],
    [
      'a community twice',
      forge(cWithAgents, 3, { place: B, inputs: inputsFor(B, 'participant') }),
      'stage-3',
      'is not the stage',
    ],
    ['agents purged that were not there', forge(bPurged, 1, { result: { has_agents: false } }), 'stage-1', 'decision'],
    [
      'a forged decision',
      forge(bPurged, 1, { transition: { decision: 'community_complete', community: B } }),
      'stage-1',
      'decision',
    ],
    [
      'a decision about another community',
      forge(cWithAgents, 2, { transition: { decision: 'community_complete', community: C } }),
      'stage-2',
      'another community',
    ],
    ['inputs of another target', forge(gated, 0, { inputs: { target: 'demo:beta' } }), 'stage-0', 'another target'],
    [
      'inputs of another community',
      forge(bWithAgents, 1, { inputs: inputsFor(C, 'participant') }),
      'stage-1',
      'another community in its inputs',
    ],
    [
      'inputs without a community',
      forge(bWithAgents, 1, { inputs: { target: TARGET } }),
      'stage-1',
      'another community in its inputs',
    ],
    [
      'another role than was approved',
      forge(bWithAgents, 1, { inputs: inputsFor(B, 'former_participant') }),
      'stage-1',
      'approved inventory does not have',
    ],
    [
      'a community that was not approved',
      forge(bWithAgents, 1, { inventory: inventoryOf([other]) }),
      'stage-1',
      'is not the stage',
    ],
    ['a request for another target', { ...gated, target: 'demo:beta' }, 'stage-0', 'another target'],
    ['a missing has_agents in the past', forge(bPurged, 1, { result: {} }), 'stage-1', 'has_agents'],
  ])('%s', (_name, input, stageId, message) => {
    const failure = catchHistoryError(() => userDeletionPolicy.decide(input));
    expect(failure.stageId).toBe(stageId);
    expect(failure.message).toContain(message);
  });

  function catchHistoryError(work: () => unknown): HistoryError {
    try {
      work();
    } catch (error) {
      if (error instanceof HistoryError) return error;
      throw error;
    }
    throw new Error('nothing was thrown');
  }
});

describe('OP-9: mayCancel', () => {
  const unfinished = (status: StageRecord['status']) => ({
    ...gated,
    history: gated.history.map((record) => ({ ...record, status, result: undefined })),
  });
  test.each([
    ['before the gate', begin, true],
    ['while the gate is pending', unfinished('pending'), true],
    ['while the gate runs', unfinished('running'), true],
    ['when the gate has failed', unfinished('failed'), true],
    ['when the gate has completed', gated, false],
    ['later', bWithAgents, false],
  ])('%s: %s', (_name, input, expected) => {
    expect(userDeletionPolicy.mayCancel(input)).toBe(expected);
  });
});

describe('EX-22: purity', () => {
  const results = fc.record({ has_agents: fc.boolean() });

  test('the same input has the same answer, and is left as it was', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.uuid(), { minLength: 1, maxLength: 6 }),
        fc.array(results),
        fc.boolean(),
        (ids, taken, isCancelled) => {
          let input = inputOf([], { inventory: inventoryOf(ids) });
          for (const result of taken) {
            if (userDeletionPolicy.decide(input).kind === 'end') break;
            input = take(input, result);
          }
          const asked = deepFreeze({ ...input, isCancelled });
          const first = userDeletionPolicy.decide(asked);
          expect(userDeletionPolicy.decide(structuredClone(asked))).toEqual(first);
          expect(userDeletionPolicy.decide(asked)).toEqual(first);
        },
      ),
    );
  });

  test('EX-10: every community is purged exactly once, whatever the branches, and then it ends', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.uuid(), { minLength: 1, maxLength: 8 }),
        fc.infiniteStream(fc.boolean()),
        (ids, agents) => {
          let input = inputOf([], { inventory: inventoryOf(ids) });
          const purged: (string | null)[] = [];
          while (userDeletionPolicy.decide(input).kind === 'enter') {
            const { value } = agents.next() as { value: boolean };
            input = take(input, { has_agents: value });
            if (input.history.at(-1)?.stage === 'purge_db') purged.push(input.history.at(-1)?.place ?? null);
          }
          expect(purged).toEqual(ids);
        },
      ),
    );
  });

  function deepFreeze<T>(value: T): T {
    if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
    Object.freeze(value);
    for (const part of Object.values(value)) deepFreeze(part);
    return value;
  }
});

describe('EX-11: check, before an unfinished stage is run again', () => {
  const resumed = (input: PolicyInput): PolicyInput => ({
    ...input,
    history: input.history.map((record, index) =>
      index === input.history.length - 1 ? { ...record, status: 'running', result: undefined } : record,
    ),
  });

  test('accepts what the rules lead to', () => {
    for (const input of [gated, bWithAgents, bPurged, cPurged])
      expect(() => userDeletionPolicy.check(resumed(input))).not.toThrow();
  });

  test('refuses a stage that they do not lead to, and a past that does not fit', () => {
    const [gate, ...rest] = resumed(bPurged).history as [StageRecord, ...StageRecord[]];
    const last = rest.at(-1) as StageRecord;
    const forged = [
      {
        ...bPurged,
        history: [gate, ...rest.slice(0, -1), { ...last, place: C, inputs: inputsFor(C, 'former_participant') }],
      },
      { ...bPurged, history: [{ ...gate, transition: { decision: 'begin' } }, ...rest] },
      { ...bPurged, target: 'demo:beta' },
    ];
    for (const input of forged) expect(() => userDeletionPolicy.check(input)).toThrow(HistoryError);
  });
});
