/** The built command line, run as a process the way an operator runs it, on a database of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { vi } from 'vitest';
import { migrateDatabase, openDatabase } from '../../src/client/open-database.js';
import { DeletionRecord } from '../../src/client/record.js';
import { silentLog } from '../../src/observe/log.js';
import type { Database } from '../../src/storage/database.js';
import { userDeletion } from '../../src/workflows/user-deletion/workflow.js';
import { createTestDatabase } from './postgres.js';

// A test here starts many processes, each of which takes seconds on a machine that is busy.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

export const commandLine = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
}

export interface StartOptions {
  /** Set beside the workplace's own; undefined removes one. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly input?: string;
  readonly cwd?: string;
}

/** A directory, and a migrated database that `EXPUNGE_DATABASE_URL` names. */
export interface Workplace {
  readonly url: string;
  readonly directory: string;
  /** The same database, without a process of its own: for the states that tests start from. */
  readonly database: Database;
  readonly record: DeletionRecord;
  /** Starts `expunge` with these arguments. */
  start(args: readonly string[], options?: StartOptions): Started;
  /** Runs it to its end. */
  expunge(...args: readonly string[]): Promise<Ended>;
  /** Runs it, expects exit code 0 and reads what it printed. */
  json<T>(...args: readonly string[]): Promise<T>;
  /** Runs one statement as the database's superuser, in the product's schema. */
  sql<R extends pg.QueryResultRow>(statement: string, values?: readonly unknown[]): Promise<readonly R[]>;
  /** Every row of every table but the event log, as text. */
  everyRow(): Promise<readonly string[]>;
  close(): Promise<void>;
}

export async function openWorkplace(): Promise<Workplace> {
  const server = await createTestDatabase();
  await migrateDatabase({ kind: 'postgres', url: server.url });
  const database = await openDatabase({ kind: 'postgres', url: server.url });
  const directory = mkdtempSync(join(tmpdir(), 'expunge-cli-'));
  const client = new pg.Client({ connectionString: server.url, options: '-c search_path=expunge' });
  await client.connect();

  const start = (args: readonly string[], options: StartOptions = {}): Started =>
    startProcess(args, { cwd: directory, ...options, env: { EXPUNGE_DATABASE_URL: server.url, ...options.env } });
  const workplace: Workplace = {
    url: server.url,
    directory,
    database,
    record: new DeletionRecord(database, silentLog, [userDeletion()]),
    start,
    expunge: (...args) => start(args).ended,
    json: async <T>(...args: readonly string[]) => {
      const ended = await start(args).ended;
      if (ended.code !== 0) throw new Error(`expunge ${args.join(' ')} ended with ${ended.code}: ${ended.stderr}`);
      return JSON.parse(ended.stdout) as T;
    },
    sql: async <R extends pg.QueryResultRow>(statement: string, values: readonly unknown[] = []) =>
      (await client.query<R>(statement, [...values])).rows,
    everyRow: async () => {
      const tables = await workplace.sql<{ name: string }>(
        `SELECT relname AS name FROM pg_class
          WHERE relnamespace = 'expunge'::regnamespace AND relkind = 'r' AND relname <> 'deletion_events' ORDER BY 1`,
      );
      const rows = [];
      for (const { name } of tables) {
        rows.push(
          ...(await workplace.sql<{ row: string }>(`SELECT '${name} ' || x::text AS row FROM ${name} x ORDER BY 1`)),
        );
      }
      return rows.map(({ row }) => row);
    },
    close: async () => {
      await Promise.all([client.end(), database.close()]);
      await server.drop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
  return workplace;
}

/** Starts the command line without a workplace. */
export function startProcess(args: readonly string[], { env, input, cwd }: StartOptions): Started {
  const child = spawn(process.execPath, [commandLine, ...args], {
    cwd,
    env: { ...process.env, NODE_ENV: undefined, EXPUNGE_LOG: undefined, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  // A command that does not read its input may be gone before it is written.
  child.stdin.on('error', () => undefined);
  child.stdin.end(input ?? '');
  return { child, ended: collect(child) };
}

async function collect(child: ChildProcess): Promise<Ended> {
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout, stderr };
}

/** Waits until a process has written this on standard error; fails where it ends without. */
export async function saidOn(child: ChildProcess, words: string): Promise<void> {
  let said = '';
  await new Promise<void>((resolve, reject) => {
    child.stderr?.on('data', (text: string) => {
      said += text;
      if (said.includes(words)) resolve();
    });
    child.once('close', () => reject(new Error(`It ended without saying ${words}: ${said}`)));
  });
}

/** Asks again until the answer is neither false nor undefined; the test's own limit ends what never comes. */
export async function until<T>(ask: () => Promise<T | false | undefined>): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (answer !== false && answer !== undefined) return answer;
    await sleep(25);
  }
}
