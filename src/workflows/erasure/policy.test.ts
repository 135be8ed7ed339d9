import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  BEGINNING,
  cancelled,
  done,
  drift,
  Erasure,
  erased,
  failed,
  gated,
  inventoryOf,
  inWords,
  later,
  ok,
  planOf,
  postponed,
  type PlannedTarget,
  type Saved,
  sealed,
} from '../../../test/support/erasure-history.js';
import { HistoryError, type StageRecord } from '../../engine/history.js';
import { erasurePolicy } from './policy.js';

const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ name })) as [PlannedTarget, PlannedTarget, PlannedTarget];
const two = inventoryOf([a, b]);

describe('the erasure policy', () => {
  it('goes from the gate through every target to the seal', () => {
    const erasure = new Erasure(two);
    const way: string[] = [];
    for (const outcome of [gated, erased(), erased(), ok, done(), done(), sealed]) {
      way.push(inWords(erasure.enter()));
      erasure.save(outcome);
    }
    expect([...way, inWords(erasure.decide())]).toEqual([
      ...['gate', 'erase a', 'erase b', 'settle', 'settle a', 'settle b', 'seal', 'completed'],
    ]);
  });

  it('WF-13: revokes everywhere before it erases anywhere', () => {
    const erasure = new Erasure(inventoryOf([a, { ...b, revokes: true }, { ...c, revokes: true }])).pass(gated);
    expect([1, 2, 3, 4, 5].map(() => (inWords(erasure.enter()), erasure.save(erased()), last(erasure)))).toEqual([
      ...['revoke b', 'revoke c', 'erase a', 'erase b', 'erase c'],
    ]);
  });

  it('WF-13, WF-29: a target whose revoke is down keeps only its own erase back', () => {
    const erasure = new Erasure(inventoryOf([{ ...a, revokes: true }, b])).pass(gated, postponed(later(60_000)));
    expect(inWords(erasure.decide())).toBe('erase b');
    erasure.pass(erased());
    expect(erasure.decide()).toMatchObject({ stage: 'revoke', place: 'a', wait: { until: later(60_000) } });
    erasure.pass(done());
    expect(inWords(erasure.decide())).toBe('erase a');
  });

  it.each([
    ['first', ['a', 'b', 'c'], 'a'],
    ['in the middle', ['a', 'b', 'c'], 'b'],
    ['last', ['a', 'b', 'c'], 'c'],
  ])('WF-29: a target that cannot finish holds up no other, standing %s', (_where, names, bad) => {
    for (const outcome of [postponed(later(3_600_000)), failed(), failed('TARGET_BLOCKED: no', false)]) {
      const erasure = new Erasure(inventoryOf(names.map((name) => ({ name })))).pass(gated);
      for (let visit = 0; visit < 3; visit += 1) {
        const { place } = erasure.enter();
        erasure.save(place === bad ? outcome : erased());
      }
      const decision = erasure.decide();
      expect(decision).toMatchObject({ stage: 'erase', place: bad });
      expect(decision.kind === 'enter' && decision.wait?.why).toMatch(new RegExp(`^${bad}: TARGET_`));
    }
  });

  describe('waits', () => {
    const waitOf = (...outcomes: readonly Saved[]) => {
      const decision = new Erasure(two).pass(gated, ...outcomes).decide();
      return decision.kind === 'enter' ? decision.wait : undefined;
    };
    const soon = later(60_000);
    const late = later(120_000);

    it('waiting, until the first of those that were postponed', () => {
      expect(waitOf(postponed(late), postponed(soon))).toMatchObject({ status: 'waiting', until: soon });
    });
    it('retry_wait where one of them failed, naming all of them', () => {
      const wait = waitOf(postponed(soon, 'AWAY'), failed('REFUSED'));
      // The gate and two visits took a second each; the first retry comes after exactly 30.
      expect(wait).toEqual({ status: 'retry_wait', until: later(33_000), why: 'b: REFUSED; a: AWAY' });
    });
    it('blocked only where all are blocked', () => {
      expect(waitOf(failed('NO', false), postponed(soon))).toMatchObject({ status: 'waiting', until: soon });
      expect(waitOf(failed('NO', false), failed('NEVER', false))).toEqual({
        status: 'blocked',
        until: null,
        why: 'a: NO; b: NEVER',
      });
    });
    it('not at all where the time of one has come', () => {
      expect(waitOf(postponed(BEGINNING), postponed(late))).toBeUndefined();
    });
  });

  it('blocks a target after its 8th failure, not counting waits between them, and no other target', () => {
    const erasure = new Erasure(two).pass(gated, failed());
    erasure.pass(erased());
    const pauses: number[] = [];
    for (let failures = 1; failures < 8; failures += 1) {
      const decision = erasure.decide();
      expect(decision).toMatchObject({ stage: 'erase', place: 'a', wait: { status: 'retry_wait' } });
      const until = decision.kind === 'enter' ? decision.wait?.until : null;
      const failure = erasure.history.findLast(({ result }) => result?.['state'] === 'failed');
      pauses.push(((until?.getTime() ?? 0) - (failure?.finishedAt?.getTime() ?? 0)) / 1000);
      erasure.pass(postponed(later(5_000, erasure.now)), failed());
    }
    expect(erasure.decide()).toMatchObject({ stage: 'erase', place: 'a', wait: { status: 'blocked', until: null } });
    expect(pauses[0]).toBe(30);
    pauses.slice(1).forEach((pause, index) => {
      expect(pause / (60 * 2 ** index)).toBeGreaterThanOrEqual(0.9);
      expect(pause / (60 * 2 ** index)).toBeLessThanOrEqual(1.1);
    });
  });

  it('OP-9: after an unblock what failed before no longer counts', () => {
    const erasure = new Erasure(two).pass(gated, failed('NO', false), failed('NO', false));
    erasure.unblockedAt = erasure.now = later(1_000, erasure.now);
    expect(inWords(erasure.decide())).toBe('erase a');
    erasure.pass(erased(), failed('AGAIN', false));
    expect(erasure.decide()).toMatchObject({ place: 'b', wait: { status: 'blocked', why: 'b: AGAIN' } });
  });

  describe('WF-7: drift', () => {
    it('goes to a new gate when the others are done', () => {
      const erasure = new Erasure(two).pass(gated, drift);
      expect(inWords(erasure.decide())).toBe('erase b');
      expect(inWords(erasure.pass(erased()).decide())).toBe('gate');
      expect(inWords(erasure.pass(ok).decide())).toBe('erase a');
    });
    it('waits for those that are tried again: while a person is asked, nobody is', () => {
      const erasure = new Erasure(two).pass(gated, drift, postponed(later(60_000)));
      expect(erasure.decide()).toMatchObject({ stage: 'erase', place: 'b', wait: { until: later(60_000) } });
      expect(inWords(erasure.pass(erased()).decide())).toBe('gate');
    });
    it('does not wait for those that are blocked', () => {
      expect(inWords(new Erasure(two).pass(gated, drift, failed('NO', false)).decide())).toBe('gate');
    });
  });

  describe('WF-27: settling', () => {
    const slow = inventoryOf([a, b], { settleSeconds: 600 });
    it('waits for the longest message age, from the mark on', () => {
      const erasure = new Erasure(slow).pass(gated, erased(), erased(), ok);
      const due = later(600_000, erasure.now);
      expect(erasure.decide()).toMatchObject({ stage: 'settle', place: 'a', wait: { status: 'waiting', until: due } });
      erasure.now = due;
      expect(inWords(erasure.decide())).toBe('settle a');
    });
    it('WF-18: comes back to the unfinished target only', () => {
      const erasure = new Erasure(two).pass(gated, erased(), erased(), ok, postponed(later(60_000)), done());
      expect(inWords(erasure.decide())).toBe('settle a, waiting');
      expect(inWords(erasure.pass(done()).decide())).toBe('seal');
    });
  });

  describe('WF-6: under a revised plan', () => {
    it('visits a target again that was done under another plan, and marks and settles it after that', () => {
      const erasure = new Erasure(two).pass(gated, erased(), erased(), ok, done());
      erasure.inventory = inventoryOf([a, { ...b, plan: 'b' }]);
      const way: string[] = [];
      for (const outcome of [erased('b'), ok, done('b'), sealed]) {
        way.push(inWords(erasure.enter()));
        erasure.save(outcome);
      }
      expect(way).toEqual(['erase b', 'settle', 'settle b', 'seal']);
      expect(inWords(erasure.decide())).toBe('completed');
    });
    it('goes back from a seal and from a mark that found a target open', () => {
      const open: Saved = { result: { state: 'open' } };
      const sealing = new Erasure(two).pass(gated, erased(), erased(), ok, done(), done());
      sealing.enter();
      sealing.inventory = inventoryOf([a, b, c]);
      expect(inWords(sealing.save(open).decide())).toBe('erase c');
      const marking = new Erasure(two).pass(gated, erased(), erased());
      marking.enter();
      marking.inventory = inventoryOf([a, b, c]);
      marking.save(open).pass(erased());
      expect(inWords(marking.decide())).toBe('settle');
    });
    it('counts a visit under the plan that it was done under, not the one that it was decided under', () => {
      const erasure = new Erasure(two).pass(gated, erased());
      erasure.enter();
      erasure.inventory = inventoryOf([a, { ...b, plan: 'b' }]);
      expect(inWords(erasure.save(erased('b')).decide())).toBe('settle');
    });
  });

  describe('OP-9: a cancel', () => {
    const cancel = (erasure: Erasure): string => {
      erasure.isCancelled = true;
      return inWords(erasure.decide());
    };
    it('ends a request that has not begun', () => {
      expect(cancel(new Erasure(two))).toBe('cancelled');
      const early = new Erasure(two);
      early.enter();
      expect(cancel(early.save(cancelled))).toBe('cancelled');
    });
    it('undoes a gate that had begun, once', () => {
      const erasure = new Erasure(two);
      erasure.enter();
      erasure.save({ ...gated, ...cancelled });
      expect(cancel(erasure)).toBe('ungate');
      erasure.isCancelled = false;
      expect(inWords(erasure.pass(ok).decide())).toBe('cancelled');
      expect(erasurePolicy.mayCancel(erasure.input)).toBe(false);
    });
    it('is possible up to the first erase intent, and not after', () => {
      const erasure = new Erasure(inventoryOf([{ ...a, revokes: true }, b])).pass(gated, done());
      expect(erasurePolicy.mayCancel(erasure.input)).toBe(true);
      erasure.enter();
      expect(erasurePolicy.mayCancel(erasure.input)).toBe(true);
      erasure.history = erasure.history.map((record) =>
        record.stage === 'erase' ? { ...record, intent: { places: [] } } : record,
      );
      expect(erasurePolicy.mayCancel(erasure.input)).toBe(false);
      expect(cancel(erasure.save(erased()))).toBe('erase b');
    });
  });
});

describe('EX-11: a forged history is refused, naming the row', () => {
  const whole = (): Erasure =>
    new Erasure(inventoryOf([{ ...a, revokes: true }, b])).pass(
      ...[gated, done(), erased(), erased(), ok, done(), done(), sealed],
    );
  /** Leaves stages out as if they had never been, the decisions joined up. */
  const without = (history: readonly StageRecord[], ...stages: readonly string[]): readonly StageRecord[] => {
    const kept = history.filter(({ stage, place }) => !stages.includes(place === null ? stage : `${stage} ${place}`));
    return kept.map((record, index) => {
      const next = kept[index + 1];
      const before = history[history.indexOf(next as StageRecord) - 1];
      return next === undefined ? record : { ...record, transition: before?.transition };
    });
  };
  const change = (stage: string, fields: Partial<StageRecord>) => (history: readonly StageRecord[]) =>
    history.map((record) =>
      (record.place === null ? record.stage : `${record.stage} ${record.place}`) === stage
        ? { ...record, ...fields }
        : record,
    );

  it.each<[string, (history: readonly StageRecord[]) => readonly StageRecord[], string, RegExp]>([
    ['no gate', (h) => without(h, 'gate'), 'revoke a', /begins with its gate/],
    ['no revoke', (h) => without(h, 'revoke a'), 'erase a', /before access was revoked/],
    ['an erase left out', (h) => without(h, 'erase b'), 'settle', /settles what is not erased/],
    ['no mark', (h) => without(h, 'settle'), 'settle a', /not marked/],
    ['a settle left out', (h) => without(h, 'settle b'), 'seal', /seals what is not settled/],
    ['a seal right after the gate', (h) => without(h, ...visits), 'seal', /seals what is not settled/],
    ['an unknown stage', change('erase b', { stage: 'wipe' }), 'wipe b', /that erasures do not have/],
    ['another target', change('erase b', { place: 'c' }), 'erase c', /another target in its inputs/],
    ['a target of nobody', change('erase b', { place: 'c', inputs: { target: 'c' } }), 'erase c', /does not have/],
    ['a gate with a target', change('gate', { place: 'a', inputs: { target: 'a' } }), 'gate a', /has a target/],
    ['an erase without', change('erase b', { place: null, inputs: {} }), 'erase', /has a target where|needs one/],
    ['no known result', change('erase b', { result: { state: 'fine' } }), 'erase b', /known result/],
    ['done under no plan', change('erase b', { result: { state: 'done' } }), 'erase b', /plan_digest/],
    [
      'done under another plan',
      change('erase b', { result: { state: 'done', plan_digest: planOf('f') } }),
      'settle',
      /not erased/,
    ],
    ['postponed for ever', change('erase b', { result: { state: 'postponed', why: 'x' } }), 'erase b', /until/],
    ['a gate without result', change('gate', { result: {} }), 'gate', /known result/],
    ['a settle that drifts', change('settle a', { result: { state: 'drift' } }), 'settle a', /drifted/],
    ['a failure without error', change('erase b', { result: { state: 'failed' } }), 'erase b', /no error/],
    ['another decision', change('erase a', { transition: { decision: 'cancel', target: 'b' } }), 'erase b', /decision/],
    ['going on after a cancel', change('erase a', { result: { cancelled: true } }), 'erase b', /after a cancel/],
    ['twice the same', (h) => twice(h, 'erase b'), 'erase b', /again that was done/],
    ['a second gate', (h) => twice(h, 'gate'), 'gate', /second gate/],
    ['a second mark', (h) => twice(h, 'settle'), 'settle', /marked already/],
    ['a second seal', (h) => twice(h, 'seal'), 'seal', /last stage/],
  ])('%s', (_what, forge, row, why) => {
    const erasure = whole();
    erasure.history = forge(erasure.history);
    const bad = erasure.history.findLast(
      ({ stage, place }) => row === (place === null ? stage : `${stage} ${place}`),
    ) as StageRecord;
    for (const ask of [erasurePolicy.decide, erasurePolicy.check] as const) {
      const refusal = errorOf(() => ask(erasure.input));
      expect(refusal).toBeInstanceOf(HistoryError);
      expect((refusal as HistoryError).stageId).toBe(bad.id);
      expect((refusal as HistoryError).message).toMatch(why);
    }
  });

  it('an ungate after the point of no return, or before a gate', () => {
    const erasure = new Erasure(two).pass(gated, erased());
    const ungate: StageRecord = { ...(erasure.history[0] as StageRecord), id: 'u', stage: 'ungate' };
    const left = erasure.history.map((record) => ({ ...record, transition: { decision: 'cancel', target: null } }));
    erasure.history = [erasure.history[0] as StageRecord, left[1] as StageRecord, ungate];
    expect(errorOf(() => erasurePolicy.check(erasure.input))).toMatchObject({ stageId: 'u' });
    const early = new Erasure(two).pass(ok);
    early.history = [
      { ...(early.history[0] as StageRecord), transition: { decision: 'cancel', target: null } },
      ungate,
    ];
    expect(errorOf(() => erasurePolicy.check(early.input))).toMatchObject({ stageId: 'u' });
  });

  const visits = ['revoke a', 'erase a', 'erase b', 'settle', 'settle a', 'settle b'];
  const twice = (history: readonly StageRecord[], row: string): readonly StageRecord[] => {
    const at = history.findIndex(({ stage, place }) => row === (place === null ? stage : `${stage} ${place}`));
    const record = history[at] as StageRecord;
    const decision = { gate: 'drift', seal: 'settled' }[record.stage] ?? (record.place === null ? 'erased' : 'visit');
    const first = { ...record, transition: { decision, target: record.place } };
    return [...history.slice(0, at), first, { ...record, id: `${record.id}-again` }, ...history.slice(at + 1)];
  };
});

describe('whatever the outcomes are', () => {
  type Step = 'done' | 'postponed' | 'failed' | 'hopeless' | 'drift';
  const script = fc.record({
    name: fc.constant(''),
    revokes: fc.boolean(),
    revoke: fc.array(fc.constantFrom<Step>('postponed', 'failed', 'drift'), { maxLength: 4 }),
    erase: fc.array(fc.constantFrom<Step>('postponed', 'failed', 'hopeless', 'drift'), { maxLength: 12 }),
    settle: fc.array(fc.constantFrom<Step>('postponed', 'failed', 'hopeless'), { maxLength: 4 }),
  });
  const scripts = fc
    .array(script, { minLength: 1, maxLength: 4 })
    .map((all) => all.map((one, index) => ({ ...one, name: `t${index}` })));

  /** Walks to the end; `look` sees every decision with the history that it was made from. */
  const walk = (
    targets: readonly (typeof scripts extends fc.Arbitrary<infer T> ? T : never)[number][],
    look: (erasure: Erasure, decision: ReturnType<Erasure['decide']>) => void,
  ): Erasure => {
    const erasure = new Erasure(inventoryOf(targets, { settleSeconds: 60 }));
    const left = new Map(
      targets.flatMap((one) =>
        (['revoke', 'erase', 'settle'] as const).map((stage) => [`${stage} ${one.name}`, [...one[stage]]]),
      ),
    );
    for (let stages = 0; stages < 1_000; stages += 1) {
      const decision = erasure.decide();
      look(erasure, decision);
      if (decision.kind === 'end') return erasure;
      if (decision.wait?.status === 'blocked') erasure.unblockedAt = erasure.now = later(1_000, erasure.now);
      const { stage, place } = erasure.enter();
      const step = place === null ? undefined : left.get(`${stage} ${place}`)?.shift();
      erasure.save(outcomeOf(erasure, stage, place, step));
    }
    throw new Error('It does not end.');
  };
  const outcomeOf = (erasure: Erasure, stage: string, place: string | null, step: Step | undefined): Saved => {
    if (place === null) return stage === 'gate' ? gated : stage === 'seal' ? sealed : ok;
    switch (step) {
      case 'postponed':
        return postponed(later(90_000, erasure.now));
      case 'failed':
        return failed();
      case 'hopeless':
        return failed('TARGET_BLOCKED: no', false);
      case 'drift':
        return drift;
      default:
        return stage === 'erase' ? erased() : done();
    }
  };
  const isDone = (erasure: Erasure, stage: string, target: string): boolean =>
    erasure.history.some((r) => r.stage === stage && r.place === target && r.result?.['state'] === 'done');
  const visited = (erasure: Erasure, stage: string, target: string): boolean =>
    erasure.history.some((r) => r.stage === stage && r.place === target && r.result !== undefined);

  it('WF-29: every target is done in the end, and nothing is completed before that', () => {
    fc.assert(
      fc.property(scripts, (targets) => {
        const end = walk(targets, (erasure, decision) => {
          if (decision.kind !== 'end') return;
          expect(decision.status).toBe('completed');
          for (const { name } of targets) {
            expect(isDone(erasure, 'erase', name) && isDone(erasure, 'settle', name)).toBe(true);
          }
        });
        expect(end.history.at(-1)?.stage).toBe('seal');
      }),
    );
  });

  it('WF-29: it waits only when each open target was visited and its time has not come', () => {
    fc.assert(
      fc.property(scripts, (targets) => {
        walk(targets, (erasure, decision) => {
          if (decision.kind !== 'enter' || decision.wait === undefined) return;
          if (decision.wait.why.startsWith('SETTLING')) return;
          expect(decision.wait.until === null || decision.wait.until > erasure.now).toBe(true);
          const stage = decision.stage === 'settle' ? 'settle' : 'erase';
          for (const { name, revokes } of targets) {
            const own = stage === 'erase' && revokes && !isDone(erasure, 'revoke', name) ? 'revoke' : stage;
            expect(visited(erasure, own, name)).toBe(true);
          }
        });
      }),
    );
  });

  it('WF-13, WF-18: access is revoked before its target is erased, and what is done is not visited again', () => {
    fc.assert(
      fc.property(scripts, (targets) => {
        walk(targets, (erasure, decision) => {
          if (decision.kind !== 'enter' || decision.place === null) return;
          const target = targets.find(({ name }) => name === decision.place);
          if (decision.stage === 'erase' && target?.revokes === true) {
            expect(isDone(erasure, 'revoke', decision.place)).toBe(true);
          }
          expect(isDone(erasure, decision.stage, decision.place)).toBe(false);
        });
      }),
    );
  });

  it('EX-10: every history that the policy leads to is one that it accepts, cut anywhere', () => {
    fc.assert(
      fc.property(scripts, (targets) => {
        const { input } = walk(targets, () => undefined);
        for (let length = 0; length <= input.history.length; length += 1) {
          const cut = { ...input, history: input.history.slice(0, length) };
          expect(() => erasurePolicy.check(cut)).not.toThrow();
        }
      }),
      { numRuns: 20 },
    );
  });

  it('EX-22: the same input has the same answer, and nothing of it is touched', () => {
    fc.assert(
      fc.property(scripts, (targets) => {
        walk(targets, (erasure, decision) => {
          const input = deepFreeze(structuredClone(erasure.input));
          expect(erasurePolicy.decide(input)).toEqual(decision);
          expect(erasurePolicy.decide(input)).toEqual(decision);
          expect(input).toEqual(erasure.input);
        });
      }),
      { numRuns: 5 },
    );
  });

  it('a history of thousands of visits is walked once', () => {
    const erasure = new Erasure(two).pass(gated, erased());
    erasure.pass(failed());
    const visit = erasure.history.at(-1) as StageRecord;
    const left = { ...visit, transition: { decision: 'visit', target: 'b' }, result: postponed(BEGINNING).result };
    const many = Array.from({ length: 9_000 }, (_, index) => ({ ...left, id: `${visit.id}-${index}` }));
    erasure.history = [...erasure.history.slice(0, -1), ...many, { ...visit, transition: undefined }];
    const began = performance.now();
    erasure.decide();
    // Looking back from every visit takes ten times as long.
    expect(performance.now() - began).toBeLessThan(2_000);
  });
});

function last({ history }: Erasure): string {
  const record = history.at(-1) as StageRecord;
  return `${record.stage} ${record.place}`;
}

function errorOf(work: () => void): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error('It was accepted.');
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(deepFreeze);
  }
  return value;
}
