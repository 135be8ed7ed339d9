/**
 * Lives of requests that are interrupted at every one of their statements: by a process that is killed there, by an answer that
 * is lost, by a connection that is cut, and by a server that does not answer.
 */
import { afterAll, expect, test } from 'vitest';
import { Bench } from './support/interruptions.js';
import { Child, here } from './support/life-workers.js';
import type { Life } from './support/lives.mjs';
import { describeWithPostgres } from './support/postgres.js';
import type { Interruption } from './support/postgres-proxy.js';

/** How many statements each life has at least; only to be raised. A statement that is added is another point by itself. */
const POINTS: Readonly<Record<Life, number>> = {
  'user-deletion': 48,
  erasure: 200,
  'erasure-returned': 1,
  'erasure-cancelled': 1,
};

/** Every so many of the statements of a life are interrupted; with EXPUNGE_TEST_EVERY_STATEMENT=1 all of them, for an hour or so. */
const EVERY: Readonly<Record<Life, Readonly<Record<Interruption, number>>>> = {
  'user-deletion': { stop: 1, gone: 1, lose: 1, cut: 2, hang: 4 },
  erasure: { stop: 6, gone: 6, lose: 12, cut: 24, hang: 48 },
  'erasure-returned': { stop: 32, gone: 32, lose: 64, cut: 96, hang: 128 },
  'erasure-cancelled': { stop: 16, gone: 16, lose: 32, cut: 64, hang: 96 },
};
const everyStatement = process.env['EXPUNGE_TEST_EVERY_STATEMENT'] === '1';

/** So many lives at once: those that hang wait, and take no processor. */
const LANES: Readonly<Record<Interruption, number>> = { stop: 3, gone: 3, lose: 3, cut: 3, hang: 8 };
const bench = { customers: 150, hangMs: 3_000, statementMs: 1_500, token: true };

describeWithPostgres('WF-28: interrupted at every statement', () => {
  const lives = Object.keys(POINTS) as Life[];
  const hows: readonly Interruption[] = ['stop', 'lose', 'cut', 'hang'];
  let tried = 0;
  afterAll(() => console.info(`${tried} interruptions`));

  test.each(lives.flatMap((life) => hows.map((how) => [life, how] as const)))('%s, %s', async (life, how) => {
    const found = await tryAll(life, how, LANES[how]);
    tried += found.tried;
    console.info(`${life}, ${how}: ${found.tried} of ${found.points} points`);
    expect(found.differences).toEqual([]);
    expect(found.points).toBeGreaterThanOrEqual(POINTS[life]);
  });
});

interface Found {
  readonly points: number;
  readonly tried: number;
  /** The statement's number and text, and what was different afterwards. */
  readonly differences: readonly (readonly [number, string, string])[];
}

async function tryAll(life: Life, how: Interruption, lanes: number): Promise<Found> {
  const first = await Bench.open(bench);
  const { statements } = await first.undisturbed(life, here);
  await first.close();
  const chosen = statements
    .map((_, index) => index + 1)
    .filter((number) => everyStatement || number % EVERY[life][how] === 0);
  const numbers = chosen.values();
  const differences: [number, string, string][] = [];
  const lane = async (): Promise<void> => {
    const victims = new Victims(how);
    const successor = new Child();
    try {
      for (let found = numbers.next(); !found.done;) found = await workThrough(found);
    } finally {
      await Promise.all([victims.close(), successor.close()]);
    }

    /** As many as the customers of one bench are enough for. */
    async function workThrough(next: IteratorResult<number, undefined>): Promise<IteratorResult<number, undefined>> {
      const stores = await Bench.open(bench);
      let found = next;
      try {
        const plain = await stores.undisturbed(life, successor);
        for (; !found.done && !stores.isFull; found = numbers.next()) {
          const number = found.value;
          const workers = { victim: () => victims.next(), successor: async () => successor };
          const difference = await stores.interrupted(life, number, how, plain, workers).catch(String);
          if (difference === null) continue;
          differences.push([number, statements[number - 1]?.text.trim().slice(0, 200) ?? '', difference]);
          // Whatever is stuck there would be claimed by whoever comes next.
          return numbers.next();
        }
        return found;
      } finally {
        await stores.close();
      }
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return {
    points: statements.length,
    tried: chosen.length,
    differences: differences.sort(([one], [other]) => one - other),
  };
}

/** Processes that wait for their lives; a new one only where they are killed. */
class Victims {
  readonly #killed: boolean;
  #waiting: Child | null = null;
  #last: Child | null = null;

  constructor(how: Interruption) {
    this.#killed = how === 'stop';
    this.#waiting = new Child();
  }

  async next(): Promise<Child> {
    if (!this.#killed && this.#last !== null) return this.#last;
    const child = this.#waiting ?? new Child();
    await this.#last?.close();
    this.#last = child;
    // Started while this one leads its life.
    this.#waiting = this.#killed ? new Child() : null;
    return child;
  }

  async close(): Promise<void> {
    await Promise.all([this.#last?.close(), this.#waiting?.close()]);
  }
}
