/** How fast the engine is: a backlog, one request at a time, with years of finished requests, and what limits it. */
import { fileURLToPath } from 'node:url';
import { contest } from '../measure/contest.mjs';
import { record, summarise, table } from '../measure/report.mjs';

const module = (name) => fileURLToPath(new URL(`${name}.mjs`, import.meta.url));
const [expunge, plain, dbos, pgBoss, graphileWorker] = [
  'expunge',
  'plain-statements',
  'dbos',
  'pg-boss',
  'graphile-worker',
].map(module);

/** Peers run with the batch settings that their documentation recommends; DBOS has none for workflows of steps. */
function measurements(scale) {
  const many = (count) => Math.max(20, Math.round(count * scale));
  return {
    backlog: [
      { name: 'Expunge, stages', module: expunge, work: { requests: many(20_000), finished: 0 } },
      { name: 'DBOS, steps, 24 workflows at once', module: dbos, work: { workflows: many(1_000), atOnce: 24 } },
      {
        name: 'pg-boss, jobs, hundreds, 8 at once',
        module: pgBoss,
        work: { jobs: many(20_000), chunk: 100, atOnce: 8 },
      },
      { name: 'graphile-worker, jobs, batched', module: graphileWorker, work: { jobs: many(50_000) } },
      { name: 'plain statements, stages', module: plain, work: { requests: many(20_000), batch: 500, atOnce: 2 } },
    ],
    single: [
      {
        name: 'Expunge, one request at a time',
        module: expunge,
        work: { requests: many(300), finished: 0, oneAtATime: true },
      },
      { name: 'DBOS, one workflow at a time', module: dbos, work: { workflows: many(300), atOnce: 1 } },
    ],
    history: [
      {
        name: 'Expunge, 1,000 finished requests',
        module: expunge,
        work: { requests: many(5_000), finished: many(1_000) },
      },
      {
        name: 'Expunge, 1,000,000 finished requests',
        module: expunge,
        work: { requests: many(5_000), finished: many(1_000_000) },
      },
    ],
  };
}

export async function run({ url, rounds, scale, only, record: isRecorded }) {
  const chosen = Object.entries(measurements(scale)).filter(([name]) => only === null || name === only);
  const results = {};
  for (const [name, contestants] of chosen) {
    // A million finished requests take minutes to plant, and are no less so the third time.
    results[name] = summarise(
      await contest(contestants, { url, rounds: name === 'history' ? Math.min(rounds, 3) : rounds }),
    );
  }
  const rows = Object.values(results).flat();
  const ratios = ratiosOf(results);
  console.log(table(rows));
  console.log(
    ratios.map(({ text, value, goal }) => `${value.toFixed(2).padStart(8)}  ${text} (goal: ${goal})`).join('\n'),
  );
  if (isRecorded) await record({ name: 'engine', url, rounds, scale, rows, ratios, chart: results.backlog ?? rows });
}

function ratiosOf(results) {
  const rate = (measurement, name) => results[measurement]?.find((row) => row.name.startsWith(name))?.rate;
  const ratio = (text, goal, over, under) =>
    over === undefined || under === undefined ? [] : [{ text, goal, value: over / under }];
  const stages = rate('backlog', 'Expunge');
  return [
    ...ratio("a backlog: Expunge's stages to DBOS's steps", 'at least 10', stages, rate('backlog', 'DBOS')),
    ...ratio("a backlog: Expunge's stages to pg-boss's jobs", 'at least 1', stages, rate('backlog', 'pg-boss')),
    ...ratio(
      "a backlog: Expunge's stages to graphile-worker's jobs",
      'to be approached',
      stages,
      rate('backlog', 'graphile'),
    ),
    ...ratio('a backlog: Expunge to plain statements', 'the limit', stages, rate('backlog', 'plain')),
    ...ratio('one at a time: Expunge to DBOS', 'at least 1', rate('single', 'Expunge'), rate('single', 'DBOS')),
    ...ratio(
      '1,000,000 finished requests to 1,000',
      'at least 0.8',
      rate('history', 'Expunge, 1,000,000'),
      rate('history', 'Expunge, 1,000 '),
    ),
  ];
}
