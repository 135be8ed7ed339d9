/** The embedded database between processes: one at a time, whoever dies, and nothing committed is lost. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { sql } from 'kysely';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { lockDirectory } from '../src/storage/pglite/directory-lock.js';
import { openPGlite } from '../src/storage/pglite/pglite-database.js';

// Processes, and PGlite in them, take seconds to start on a machine that is busy.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

const built = (path: string): string => new URL(`../dist/storage/pglite/${path}`, import.meta.url).href;

/** Locks the directories that it is told on standard input, all processes at the moment at which the file "go" appears. */
const locker = `
  import { existsSync } from 'node:fs';
  import { join } from 'node:path';
  import { createInterface } from 'node:readline';
  const { lockDirectory } = await import(${JSON.stringify(built('directory-lock.js'))});
  let release;
  for await (const line of createInterface({ input: process.stdin })) {
    const [command, directory] = JSON.parse(line);
    if (command === 'release') {
      release();
      console.log('released');
      continue;
    }
    console.log('ready');
    while (!existsSync(join(directory, 'go')));
    try {
      release = lockDirectory(directory);
      console.log('won');
    } catch (error) {
      console.log(error.code === 'EMBEDDED_DATABASE' ? 'refused' : String(error.stack));
    }
  }`;

/** Writes two rows in each transaction, and says so after each commit, until it is killed. */
const writer = (directory: string): string => `
  const { openPGlite } = await import(${JSON.stringify(built('pglite-database.js'))});
  const { sql } = await import(${JSON.stringify(import.meta.resolve('kysely'))});
  const database = openPGlite({ directory: ${JSON.stringify(directory)} });
  await sql\`CREATE TABLE note (n integer)\`.execute(database.db);
  for (let n = 1; ; n += 1) {
    await database.transaction(async (tx) => {
      await sql\`INSERT INTO note VALUES (\${n})\`.execute(tx.db);
      await sql\`INSERT INTO note VALUES (\${n})\`.execute(tx.db);
    });
    console.log(n);
  }`;

interface Child {
  readonly pid: number;
  tell(...words: readonly string[]): void;
  /** The next line that it says. */
  says(): Promise<string>;
  kill(): Promise<void>;
}

const children = new Set<ChildProcess>();
let parent: string;
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'expunge-processes-'));
});
afterEach(async () => {
  await Promise.all([...children].map(kill));
  rmSync(parent, { recursive: true, force: true });
});

async function kill(child: ChildProcess): Promise<void> {
  children.delete(child);
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

function start(script: string): Child {
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['pipe', 'pipe', 'inherit'] });
  children.add(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    pid: child.pid ?? expect.unreachable('it did not start'),
    tell: (...words) => void child.stdin.write(`${JSON.stringify(words)}\n`),
    says: async () => {
      const line: IteratorResult<string, unknown> = await lines.next();
      return line.done === true ? expect.unreachable('it ended without a word') : line.value;
    },
    kill: () => kill(child),
  };
}

function newDirectory(): string {
  return mkdtempSync(join(parent, 'database-'));
}

/** Lets all of them try for the lock at one moment. */
async function race(runners: readonly Child[], directory: string): Promise<readonly string[]> {
  rmSync(join(directory, 'go'), { force: true });
  for (const runner of runners) runner.tell('lock', directory);
  for (const runner of runners) expect(await runner.says()).toBe('ready');
  writeFileSync(join(directory, 'go'), '');
  return Promise.all(runners.map((runner) => runner.says()));
}

const oneWinner = (runners: readonly unknown[]): readonly string[] => [
  ...Array.from({ length: runners.length - 1 }, () => 'refused'),
  'won',
];

test('OP-11: a second process is refused until the first has ended, also when that was killed', async () => {
  const directory = newDirectory();
  const first = start(locker);
  expect(await race([first], directory)).toEqual(['won']);
  expect(() => lockDirectory(directory)).toThrow(
    expect.objectContaining({
      code: 'EMBEDDED_DATABASE',
      outcome: 'refused',
      message: expect.stringContaining(`in use by process ${first.pid}`) as string,
    }) as Error,
  );
  await first.kill();
  lockDirectory(directory)();
});

test('of eight processes that find a stale lock, or a released one, exactly one takes it, every time', async () => {
  const dead = start(locker);
  const origin = newDirectory();
  expect(await race([dead], origin)).toEqual(['won']);
  await dead.kill();

  const runners = Array.from({ length: 8 }, () => start(locker));
  for (let round = 0; round < 15; round += 1) {
    const directory = newDirectory();
    copyFileSync(join(origin, 'lock.1'), join(directory, 'lock.1'));
    const answers = await race(runners, directory);
    expect([...answers].sort()).toEqual(oneWinner(runners));
    const winner = runners[answers.indexOf('won')];
    winner?.tell('release');
    expect(await winner?.says()).toBe('released');
    const again = await race(runners, directory);
    expect([...again].sort()).toEqual(oneWinner(runners));
    expect(readdirSync(directory).sort()).toEqual(['go', 'lock.3']);
  }
});

test('a killed process loses no committed row and leaves no half of a transaction', async () => {
  const directory = newDirectory();
  const first = start(writer(directory));
  let said = 0;
  while (said < 20) said = Number(await first.says());
  expect(() => openPGlite({ directory })).toThrow(
    expect.objectContaining({ message: expect.stringContaining(`in use by process ${first.pid}`) as string }) as Error,
  );
  await first.kill();
  const database = openPGlite({ directory });
  try {
    const { rows } = await sql<{ n: number; times: number }>`
      SELECT n, count(*) AS times FROM note GROUP BY n ORDER BY n`.execute(database.db);
    expect(rows).toEqual(rows.map((_row, index) => ({ n: index + 1, times: 2 })));
    expect(rows.length).toBeGreaterThanOrEqual(said);
  } finally {
    await database.close();
  }
});
