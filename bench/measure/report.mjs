/** What a run found: a table for the terminal, and the JSON, chart and section of RESULTS.md that are kept. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { arch, cpus, platform, release, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { barChart } from './chart.mjs';
import { median } from './contest.mjs';
import { describeServer } from './server.mjs';

const bench = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

const COLUMNS = [
  ['', ({ name }) => name],
  ['per second', ({ rate }) => integer(rate)],
  ['lowest', ({ lowest }) => integer(lowest)],
  ['highest', ({ highest }) => integer(highest)],
  ['CPU µs', ({ cpuMicroseconds }) => integer(cpuMicroseconds)],
  ['server CPU µs', ({ serverCpuMicroseconds }) => integer(serverCpuMicroseconds)],
  ['WAL bytes', ({ walBytes }) => integer(walBytes)],
  ['commits / 1000', ({ commitsPerThousand }) => decimal(commitsPerThousand)],
  ['statements / 1000', ({ statementsPerThousand }) => decimal(statementsPerThousand)],
  ['memory MB', ({ memoryMb }) => integer(memoryMb)],
];

/** One row for each contestant: medians over the rounds, and what a unit of work cost. */
export function summarise(answers) {
  return [...answers].map(([name, all]) => {
    const rates = all.map(({ units, seconds }) => units / seconds);
    const per = (pick) => {
      const values = all.map(pick).filter((value) => value !== null);
      return values.length === 0 ? null : median(values);
    };
    return {
      name,
      rate: median(rates),
      lowest: Math.min(...rates),
      highest: Math.max(...rates),
      memoryMb: Math.max(...all.map(({ memoryMb }) => memoryMb)),
      cpuMicroseconds: per(({ cpuSeconds, units }) => (cpuSeconds * 1e6) / units),
      serverCpuMicroseconds: per(({ serverCpuSeconds, units }) =>
        serverCpuSeconds === null ? null : (serverCpuSeconds * 1e6) / units,
      ),
      walBytes: per(({ walBytes, units }) => walBytes / units),
      commitsPerThousand: per(({ commits, units }) => (commits * 1000) / units),
      statementsPerThousand: per(({ statements, units }) => (statements === null ? null : (statements * 1000) / units)),
    };
  });
}

export function table(rows) {
  const cells = [COLUMNS.map(([title]) => title), ...rows.map((row) => COLUMNS.map(([, cell]) => cell(row)))];
  const widths = COLUMNS.map((_column, index) => Math.max(...cells.map((line) => line[index].length)));
  const print = (line) =>
    `| ${line.map((cell, index) => (index === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[index]))).join(' | ')} |`;
  const rule = `| ${widths.map((width, index) => (index === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`)).join(' | ')} |`;
  return [print(cells[0]), rule, ...cells.slice(1).map(print)].join('\n');
}

export async function record(run) {
  const { name, rows, ratios, chart } = run;
  const facts = await factsOf(run);
  await mkdir(bench('results'), { recursive: true });
  await writeFile(bench(`results/${name}.json`), `${JSON.stringify({ ...facts, rows, ratios }, null, 2)}\n`);
  await writeFile(bench(`results/${name}.svg`), barChart(`${name}: per second, medians`, chart));
  await replaceSection(name, section(run, facts));
}

async function factsOf({ name, url, rounds, scale }) {
  const server = await describeServer(url);
  return {
    benchmark: name,
    date: new Date().toISOString().slice(0, 10),
    command: `npm run bench -- ${name} --rounds ${rounds}${scale === 1 ? '' : ` --scale ${scale}`} --record`,
    machine: `${cpus().length} cores (${cpus()[0]?.model.trim() ?? 'unknown'}), ${Math.round(totalmem() / 2 ** 30)} GiB, ${platform()} ${release()} ${arch()}`,
    node: process.version,
    postgresql: `${server.version}, fsync ${server.fsync}, synchronous_commit ${server.synchronous_commit}, shared_buffers ${server.shared_buffers}`,
    revision: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: bench('.'), encoding: 'utf8' }).trim(),
    versions: versions(),
  };
}

function versions() {
  const { dependencies } = JSON.parse(readFileSync(bench('package.json'), 'utf8'));
  const installed = Object.keys(dependencies).map((name) => {
    const { version } = JSON.parse(readFileSync(bench(`node_modules/${name}/package.json`), 'utf8'));
    return [name, version];
  });
  return Object.fromEntries(installed);
}

function section({ name, rows, ratios }, facts) {
  const versionsText = Object.entries(facts.versions)
    .map(([dependency, version]) => `${dependency} ${version}`)
    .join(', ');
  return `## ${name}

${facts.date}, revision ${facts.revision}, \`${facts.command}\`. ${facts.machine}. Node.js ${facts.node}. PostgreSQL ${facts.postgresql}.
${versionsText}.

![chart](results/${name}.svg)

${table(rows)}

| ratio | value | goal |
| --- | ---: | --- |
${ratios.map(({ text, value, goal }) => `| ${text} | ${value.toFixed(2)} | ${goal} |`).join('\n')}
`;
}

/** Sections stand between two marks, so that what a person wrote around them stays. */
async function replaceSection(name, text) {
  const file = bench('RESULTS.md');
  const [begin, end] = [`<!-- ${name}: begin -->`, `<!-- ${name}: end -->`];
  const before = await readFile(file, 'utf8').catch(() => '# Results\n');
  const block = `${begin}\n\n${text}\n${end}`;
  const from = before.indexOf(begin);
  const after =
    from === -1
      ? `${before.trimEnd()}\n\n${block}\n`
      : `${before.slice(0, from)}${block}${before.slice(before.indexOf(end) + end.length)}`;
  await writeFile(file, after);
}

function integer(value) {
  return value === null || value === undefined ? '' : Math.round(value).toLocaleString('en');
}

function decimal(value) {
  return value === null || value === undefined ? '' : value.toFixed(1);
}
