/** Lives of requests that are interrupted at some of their statements; `interruptions.long.test.ts` tries every one of them. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Bench } from './support/interruptions.js';
import { here } from './support/life-workers.js';
import type { Life } from './support/lives.mjs';
import { describeWithPostgres } from './support/postgres.js';
import type { Interruption } from './support/postgres-proxy.js';

/** How many statements of a life are interrupted in each way, spread over all of it. */
const SAMPLES = { 'user-deletion': 2, erasure: 2, 'erasure-cancelled': 1 } as const;
const hows: readonly Interruption[] = ['gone', 'lose', 'cut', 'hang'];
const workers = { victim: async () => here, successor: async () => here };

describeWithPostgres('WF-28, EX-6 to EX-18: interrupted', () => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await Bench.open({ customers: 60, hangMs: 1_500, statementMs: 5_000, token: true });
  });
  afterAll(() => bench.close());

  test.each(Object.keys(SAMPLES) as (Life & keyof typeof SAMPLES)[])('%s', async (life) => {
    const plain = await bench.undisturbed(life, here);
    const all = plain.statements.map((statement, index) => ({ statement, number: index + 1 }));
    const differences: unknown[] = [];
    for (const [way, how] of hows.entries()) {
      // A target waits seconds for a silent server, which only the long test does.
      const points = how === 'hang' ? all.filter(({ statement }) => bench.isOwn(statement)) : all;
      for (let sample = 0; sample < SAMPLES[life]; sample += 1) {
        const place = (sample * hows.length + way + 0.5) / (SAMPLES[life] * hows.length);
        const { statement, number } = points[Math.floor(place * points.length)] as (typeof all)[number];
        const difference = await bench.interrupted(life, number, how, plain, workers);
        if (difference !== null) differences.push([how, number, statement.text, difference]);
      }
    }
    expect(differences).toEqual([]);
  });
});
