/** What can be done with one request, as commands that fast-check puts into sequences, runs, and shrinks where one fails. */
import fc from 'fast-check';
import { expect } from 'vitest';
import type { Database } from '../../src/storage/database.js';
import * as model from './request-model.js';
import { operations, type Operations, RealRequest } from './real-request.js';
import { expectInvariants, expectRetryDelay, inWordsOfModel, type Rows, withoutEvents } from './rows.js';

/** The model changes as commands are run; the rows are what the last command has left. */
interface Model {
  world: model.World;
}

interface Real {
  readonly request: RealRequest;
  rows: Rows;
}

type Command = fc.AsyncCommand<Model, Real>;

/** One command: what the model makes of a world (null where it cannot be done in it), and the same for real. */
class Act implements Command {
  readonly #name: string;
  readonly #inModel: (world: model.World) => model.Step<model.World> | null;
  readonly #forReal: (real: RealRequest) => Promise<string>;

  constructor(
    name: string,
    inModel: (world: model.World) => model.Step<model.World> | null,
    forReal: (real: RealRequest) => Promise<string>,
  ) {
    this.#name = name;
    this.#inModel = inModel;
    this.#forReal = forReal;
  }

  check({ world }: Readonly<Model>): boolean {
    return this.#inModel(world) !== null;
  }

  async run(m: Model, real: Real): Promise<void> {
    const step = this.#inModel(m.world) as model.Step<model.World>;
    expect(await this.#forReal(real.request), `the answer to: ${this.#name}`).toBe(step.answer);
    await compare(step, real);
    m.world = step.state;
  }

  /** While a handler runs: answers are not compared, the rows are when it has ended. */
  get inside(): Inside {
    return { act: (world) => this.#inModel(world)?.state ?? world, perform: this.#forReal, check: this.#inModel };
  }

  toString(): string {
    return this.#name;
  }
}

interface Inside {
  readonly act: (world: model.World) => model.World;
  readonly perform: (real: RealRequest) => Promise<string>;
  readonly check: (world: model.World) => unknown;
}

async function compare(step: model.Step<model.World>, real: Real): Promise<void> {
  const before = real.rows;
  const after = await real.request.rows();
  const { approvers, ...expected } = step.state.request;
  expect(inWordsOfModel(after)).toEqual({ ...expected, approvers: [...approvers].sort() });
  if (!step.writes) expect(withoutEvents(after), 'rows after a refusal').toEqual(withoutEvents(before));
  expectInvariants(before, after);
  if (after.request.retry_count === before.request.retry_count + 1 && after.request.next_attempt_at !== null) {
    expectRetryDelay(after);
  }
  real.rows = after;
}

// --- Commands

const byOperator = (
  name: string,
  inModel: (request: model.Request) => model.Step<model.Request> | null,
  forReal: (real: RealRequest) => Promise<string>,
) => new Act(name, (world) => lift(world, inModel(world.request)), forReal);

function lift(world: model.World, step: model.Step<model.Request> | null): model.Step<model.World> | null {
  return step === null ? null : { ...step, state: { ...world, request: step.state } };
}

const expire = byOperator('the lease runs out', model.expire, (real) => real.expire());
const becomeDue = byOperator('the next attempt becomes due', model.becomeDue, (real) => real.becomeDue());
const holdTimeComes = byOperator('the time of the hold comes', model.holdTimeComes, (real) => real.holdTimeComes());
const almostBlocked = byOperator('it has failed seven times', model.almostBlocked, (real) =>
  real.almostBlocked(model.MOST_FAILURES - 1),
);
const submitAgain = byOperator('submit again', model.submitAgain, (real) => real.submitAgain());
const cancel = byOperator('cancel', model.cancel, (real) => real.cancel());
const hold = byOperator('hold', model.hold, (real) => real.hold());
const endHold = byOperator('end the hold', model.endHold, (real) => real.endHold());
const unblock = byOperator('unblock', model.unblock, (real) => real.unblock());
const approve = (by: string) =>
  byOperator(
    `${by} approves`,
    (request) => model.approve(request, by),
    (real) => real.approve(by),
  );

function claiming(
  worker: model.Worker,
  words: string,
  inModel: (request: model.Request, owner: string) => model.Step<model.Request>,
  forReal: (real: RealRequest) => Promise<string>,
): Act {
  return new Act(
    `${worker} ${words}`,
    (world) => {
      const step = inModel(world.request, worker);
      const next = lift(world, step) as model.Step<model.World>;
      if (!step.answer.startsWith('generation')) return next;
      const memory = { generation: step.state.generation, stage: null, hasSaved: false };
      return { ...next, state: { ...next.state, memories: { ...world.memories, [worker]: memory } } };
    },
    forReal,
  );
}

const claim = (worker: model.Worker) => claiming(worker, 'claims it', model.claim, (real) => real.claim(worker));
const claimDue = (worker: model.Worker) =>
  claiming(worker, 'claims what is due', model.claimDue, (real) => real.claimDue(worker));

/** The lease runs out and somebody has the request at once: two steps that mean the most together. */
const takeOver = (worker: model.Worker) =>
  claiming(
    worker,
    'takes it over',
    (request, owner) => {
      const expired = model.expire(request);
      const step = model.claim(expired?.state ?? request, owner);
      return { ...step, writes: step.writes || expired !== null };
    },
    async (real) => {
      await real.expire();
      return real.claim(worker);
    },
  );

/** What a worker writes under the lease that it remembers. */
function writing(
  worker: model.Worker,
  words: string,
  inModel: (request: model.Request, memory: model.Memory) => model.Step<model.Request> | null,
  forReal: (real: RealRequest) => Promise<string>,
  remember: (memory: model.Memory, step: model.Step<model.Request>) => model.Memory = (memory) => memory,
): Act {
  return new Act(
    `${worker} ${words}`,
    (world) => {
      const memory = world.memories[worker];
      if (memory === undefined) return null;
      const step = inModel(world.request, memory);
      const next = lift(world, step);
      if (step === null || next === null) return null;
      return { ...next, state: { ...next.state, memories: { ...world.memories, [worker]: remember(memory, step) } } };
    },
    forReal,
  );
}

const renew = (worker: model.Worker) =>
  writing(
    worker,
    'renews',
    (request, { generation }) => model.renew(request, worker, generation),
    (real) => real.renew(worker),
  );
const release = (worker: model.Worker) =>
  writing(
    worker,
    'releases',
    (request, { generation }) => model.release(request, worker, generation),
    (real) => real.release(worker),
  );
const block = (worker: model.Worker) =>
  writing(
    worker,
    'blocks',
    (request, { generation }) => model.block(request, worker, generation),
    (real) => real.block(worker),
  );
const start = (worker: model.Worker) =>
  writing(
    worker,
    'starts its stage',
    (request, { generation, stage }) => (stage === null ? null : model.start(request, worker, generation, stage)),
    (real) => real.start(worker),
  );
const saveProgress = (worker: model.Worker) =>
  writing(
    worker,
    'saves an intent',
    (request, { generation, stage }) =>
      stage === null ? null : model.saveProgress(request, worker, generation, stage),
    (real) => real.saveProgress(worker),
  );
const save = (worker: model.Worker, outcome: model.Outcome) =>
  writing(
    worker,
    `saves ${inWords(outcome)}`,
    (request, { generation, stage }) =>
      stage === null ? null : model.save(request, worker, generation, stage, outcome),
    (real) => real.save(worker, outcome),
    (memory, { answer }) => (answer.startsWith('kept') ? { ...memory, hasSaved: true } : memory),
  );
const transition = (worker: model.Worker, remembers: boolean, begins: boolean) =>
  writing(
    worker,
    `makes the transition${remembers ? '' : ' after a restart'}${begins ? ' and goes on' : ''}`,
    (request, { generation, stage, hasSaved }) =>
      model.transition(request, { owner: worker, generation }, remembers && hasSaved ? stage : null, begins),
    (real) => real.transition(worker, remembers, begins),
    (memory, { answer, state }) =>
      answer.startsWith('current') ? { ...memory, stage: state.stages.length - 1, hasSaved: false } : memory,
  );

/** The engine's own loop, with others at work while its handler runs. */
class Run implements Command {
  readonly #outcome: model.Outcome;
  readonly #during: readonly Act[];

  constructor(outcome: model.Outcome, during: readonly Act[]) {
    this.#outcome = outcome;
    this.#during = during;
  }

  check(): boolean {
    return true;
  }

  async run(m: Model, real: Real): Promise<void> {
    let world: model.World | null = null;
    const acts = this.#during.map(({ inside }) => inside);
    const step = model.run(
      m.world,
      this.#outcome,
      acts.map((inside) => (now) => inside.act(now)),
      (now) => {
        world = now;
      },
    );
    const answer = await real.request.run(this.#outcome, async () => {
      let now: model.World | null = world;
      for (const inside of acts) {
        if (now === null || inside.check(now) === null) continue;
        await inside.perform(real.request);
        now = inside.act(now);
      }
    });
    expect(answer, `the answer to: ${this.toString()}`).toBe(step.answer);
    await compare(step, real);
    m.world = step.state;
  }

  toString(): string {
    const during = this.#during.length === 0 ? '' : ` while ${this.#during.join(' and ')}`;
    return `the engine runs a handler (${inWords(this.#outcome)})${during}`;
  }
}

/** Without a comma: those stand between the commands of a script. */
function inWords(outcome: model.Outcome): string {
  switch (outcome.kind) {
    case 'completed':
      return ['completed', outcome.rinse ? 'rinse' : '', outcome.pause ?? ''].filter((word) => word !== '').join(' + ');
    case 'failed':
      return outcome.retryable ? 'failed' : 'failed for good';
    default:
      return outcome.kind;
  }
}

// --- Arbitraries

/** One of them more often, so that somebody gets somewhere. */
const aWorker = fc.constantFrom(model.WORKERS[0], ...model.WORKERS);
const completed: fc.Arbitrary<model.Outcome> = fc.record({
  kind: fc.constant('completed' as const),
  rinse: fc.boolean(),
  pause: fc.constantFrom(null, null, null, 'waiting' as const, 'blocked' as const),
});
const anOutcome: fc.Arbitrary<model.Outcome> = fc.oneof(
  { weight: 3, arbitrary: completed },
  fc.record({ kind: fc.constant('postponed' as const) }),
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('failed' as const), retryable: fc.boolean() }) },
  fc.record({ kind: fc.constant('revised' as const) }),
);
const duringRun = fc.oneof(fc.constantFrom(expire, cancel, hold, endHold), aWorker.map(claim), aWorker.map(claimDue));

const often = (times: number, arbitrary: fc.Arbitrary<Command>): readonly fc.Arbitrary<Command>[] =>
  Array.from({ length: times }, () => arbitrary);

/** What workers do to each other. Weighted so that most sequences get far. */
export const amongWorkers: readonly fc.Arbitrary<Command>[] = [
  ...often(4, aWorker.map(claim)),
  ...often(4, aWorker.map(takeOver)),
  ...often(
    9,
    fc.tuple(aWorker, fc.boolean(), fc.boolean()).map(([...of]) => transition(...of)),
  ),
  ...often(
    9,
    fc.tuple(aWorker, anOutcome).map(([...of]) => save(...of)),
  ),
  ...often(4, aWorker.map(start)),
  ...often(3, fc.constantFrom(becomeDue, almostBlocked)),
  ...often(1, fc.constant(expire)),
];

const everything: readonly fc.Arbitrary<Command>[] = [
  ...amongWorkers,
  ...often(3, aWorker.map(claimDue)),
  ...often(2, fc.constantFrom(expire, becomeDue)),
  ...often(2, fc.constantFrom('operator-a', 'operator-b', 'operator-c').map(approve)),
  ...often(
    3,
    fc.tuple(anOutcome, fc.array(duringRun, { maxLength: 3 })).map(([...of]) => new Run(...of)),
  ),
  ...[renew, release, block, saveProgress].map((command) => aWorker.map(command)),
  ...[holdTimeComes, submitAgain, cancel, hold, endHold, unblock].map((command) => fc.constant(command)),
];

const DONE: model.Outcome = { kind: 'completed', rinse: true, pause: null };
const approved = [approve('operator-b')];
const atGate = [...approved, claim('worker-1'), transition('worker-1', true, true)];
const pastGate = [...atGate, save('worker-1', DONE), transition('worker-1', true, true)];
const atRinse = [...pastGate, save('worker-1', DONE), transition('worker-1', true, true)];
/** Where a sequence begins; it shrinks to the first of them. */
const beginnings: readonly (readonly Command[])[] = [[], approved, approved, atGate, pastGate, atRinse];

/**
 * Any sequence of commands leaves the rows that the contract says. fast-check prints the shortest one that does not, with the
 * seed and the path to it; put them into `options` to see it again.
 */
export function recordFollowsModel(database: Database, ops: Operations = operations, commands = everything) {
  return fc.asyncProperty(
    fc.constantFrom(1, 1, 2),
    fc.constantFrom(...beginnings),
    fc.commands([...commands], { maxCommands: 40, size: 'max' }),
    async (approvalsRequired, beginning, sequence) => {
      const request = await RealRequest.submit(database, ops, approvalsRequired);
      try {
        const setUp = async () => ({
          model: { world: { request: model.submitted(approvalsRequired), memories: {} } } as Model,
          real: { request, rows: await request.rows() } as Real,
        });
        await fc.asyncModelRun(setUp, [...beginning, ...sequence]);
      } finally {
        await request.close();
      }
    },
  );
}
