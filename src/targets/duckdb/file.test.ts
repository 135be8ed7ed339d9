import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Target, TargetSubject } from '../target.js';
import type { Tables } from '../tables/declaration.js';
import { duckdb } from './index.js';

const fast = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const quiet = (): AbortSignal => new AbortController().signal;
const key = { id: 'customerId' } as const;
const subject: TargetSubject = { identifiers: { customerId: 'u1' }, locators: {} };

let directory: string;
let file: string;
beforeEach(async () => {
  directory = await mkdtemp(join(fast, 'expunge-duckdb-'));
  file = join(directory, 'warehouse.duckdb');
});
afterEach(() => rm(directory, { recursive: true, force: true }));

async function run(...statements: readonly string[]): Promise<void> {
  const instance = await DuckDBInstance.create(file);
  const connection = await instance.connect();
  for (const statement of statements) await connection.run(statement);
  connection.closeSync();
  instance.closeSync();
}

const open = (tables: Tables): Target => duckdb({ file, tables }).open('analytical');
const erase = (target: Target) =>
  target.erase(new Map([['r', { ...subject, cursor: null }]]), { limit: 1_000, signal: quiet() });

it('WF-29: a file that another process has is waited for, and one that is not there is not made', async () => {
  const target = open({ visit: { key, action: 'delete' } });
  await expect(target.describe(quiet())).rejects.toMatchObject({ code: 'TARGET_UNAVAILABLE' });
  await expect(stat(file)).rejects.toMatchObject({ code: 'ENOENT' });
  await run('CREATE TABLE visit (id VARCHAR)', "INSERT INTO visit VALUES ('u1'), ('u2')");
  const script = `import { DuckDBInstance } from '@duckdb/node-api';
    await DuckDBInstance.create(process.argv[1]);
    process.stdout.write('open');
    process.stdin.on('end', () => process.exit(0)).resume();`;
  const running = promisify(execFile)(process.execPath, ['--input-type=module', '-e', script, file]);
  await new Promise((resolve) => running.child.stdout!.once('data', resolve));
  await expect(target.describe(quiet())).rejects.toMatchObject({ code: 'TARGET_UNAVAILABLE', detail: { cause: 'IO' } });
  await expect(erase(target)).rejects.toMatchObject({ code: 'TARGET_UNAVAILABLE' });
  running.child.stdin!.end();
  await running;
  expect((await erase(target)).get('r')).toMatchObject({ done: true, reported: [{ place: 'visit', rows: 1 }] });
});

it('WF-23: the write-ahead log is taken over, and the receipt says what stays in the file', async () => {
  await run('CREATE TABLE visit (id VARCHAR)', "INSERT INTO visit VALUES ('u1'), ('u2')");
  const target = open({ visit: { key, action: 'delete' } });
  await erase(target);
  expect(await target.cleanup!(['visit'], quiet())).toEqual([
    { place: 'visit', did: ['checkpoint'], left: ['DELETED_ROWS_IN_FILE'] },
  ]);
  expect(existsSync(`${file}.wal`)).toBe(false);
});

it('WF-10: refuses by name what does not fit', async () => {
  await run(
    'CREATE TABLE visit (no INTEGER PRIMARY KEY, id VARCHAR)',
    'CREATE TABLE page (visit_no INTEGER REFERENCES visit (no))',
    'CREATE VIEW seen AS SELECT * FROM visit',
    'CREATE TABLE weight (id DOUBLE)',
  );
  const refused: readonly (readonly [Tables, RegExp])[] = [
    [{ visit: { key, action: 'delete' } }, /"page"/],
    [{ seen: { key, action: 'delete' } }, /is a view/],
    [{ weight: { key, action: 'delete' } }, /DOUBLE/],
    [{ gone: { key, action: 'delete' } }, /is not in the database/],
    [{ page: { key, action: 'delete' } }, /"id"/],
  ];
  for (const [tables, text] of refused) {
    await expect(open(tables).describe(quiet())).rejects.toMatchObject({
      code: 'TARGET_DECLARATION',
      message: expect.stringMatching(text) as string,
    });
  }
});
