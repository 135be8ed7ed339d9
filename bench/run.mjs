/** Runs one benchmark: `npm run bench -- engine`. Everything is measured in one run, and compared with what ran beside it. */
import { parseArgs } from 'node:util';

/** Each benchmark is a folder, and says in one line what it measures. */
const BENCHMARKS = {
  submit: 'a hundred thousand requests submitted from a file',
  erase: 'ten thousand subjects erased from a PostgreSQL target, against a script by hand',
  engine: 'stages, steps and jobs per second: Expunge, DBOS, pg-boss, graphile-worker, and plain statements',
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: 'string', default: process.env.EXPUNGE_BENCH_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres' },
    rounds: { type: 'string', default: '5' },
    scale: { type: 'string', default: '1' },
    only: { type: 'string' },
    record: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

const [name] = positionals;
if (values.help || positionals.length !== 1 || !Object.hasOwn(BENCHMARKS, name ?? '')) {
  console.error(`usage: npm run bench -- NAME [--rounds N] [--scale FACTOR] [--only MEASUREMENT] [--record] [--url URL]

${Object.entries(BENCHMARKS)
  .map(([key, text]) => `  ${key.padEnd(10)} ${text}`)
  .join('\n')}

  --scale    multiplies the amount of work; results are worth recording at 1
  --record   writes the JSON, the chart and the section of RESULTS.md
  --url      a PostgreSQL server on which databases may be created; they are dropped afterwards`);
  process.exitCode = values.help ? 0 : 64;
} else {
  const { run } = await import(`./${name}/index.mjs`);
  await run({
    url: values.url,
    rounds: Number(values.rounds),
    scale: Number(values.scale),
    only: values.only ?? null,
    record: values.record,
  });
}
