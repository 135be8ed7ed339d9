import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import type * as Fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { lockDirectory } from './directory-lock.js';
import { openPGlite } from './pglite-database.js';
import { ownIdentity, type ProcessIdentity, stateOf } from './process-identity.js';

/** What others do between a process's look at the lock and its own attempt. */
const meanwhile = vi.hoisted(() => ({ happens: (): void => undefined }));
vi.mock('node:fs', async (original) => {
  const fs = await original<typeof Fs>();
  const linkSync: typeof fs.linkSync = (from, to) => {
    const { happens } = meanwhile;
    meanwhile.happens = () => undefined;
    happens();
    fs.linkSync(from, to);
  };
  return { ...fs, linkSync };
});

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'expunge-lock-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const inUse = { code: 'EMBEDDED_DATABASE', outcome: 'refused' };

function expectRefusal(message: RegExp): void {
  expect(() => lockDirectory(directory)).toThrow(
    expect.objectContaining({ ...inUse, message: expect.stringMatching(message) as string }) as Error,
  );
}

function plant(number: number, content: string | Partial<ProcessIdentity>): void {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  writeFileSync(join(directory, `lock.${number}`), text);
}

describe('in one process', () => {
  test('a second opening is refused until the first is closed', () => {
    const release = lockDirectory(directory);
    expectRefusal(/ is already open in this process: .* set EXPUNGE_DATABASE_URL to a PostgreSQL server/);
    release();
    lockDirectory(directory)();
  });

  test('the same directory under another name is the same', () => {
    const release = lockDirectory(directory);
    const alias = `${directory}-alias`;
    symlinkSync(directory, alias);
    try {
      expect(() => lockDirectory(alias)).toThrow(expect.objectContaining(inUse) as Error);
    } finally {
      rmSync(alias);
      release();
    }
  });

  test('a release that is repeated does not give away the lock of the next owner', () => {
    const release = lockDirectory(directory);
    release();
    const next = lockDirectory(directory);
    release();
    expectRefusal(/already open/);
    next();
  });

  test('numbers only grow, and nothing else is left behind', () => {
    for (let round = 0; round < 3; round += 1) lockDirectory(directory)();
    expect(readdirSync(directory)).toEqual(['lock.3']);
  });

  test.each([
    ['once', 1],
    ['twice, so that its number is over', 2],
    ['three times', 3],
  ])('a slow one that the lock changed hands under is refused: %s', (_name, times) => {
    lockDirectory(directory)();
    let release = (): void => undefined;
    meanwhile.happens = () => {
      for (let hand = 0; hand < times; hand += 1) {
        release();
        release = lockDirectory(directory);
      }
    };
    expectRefusal(/already open/);
    release();
    lockDirectory(directory)();
  });

  test('a release after the directory was removed is no fault', () => {
    const release = lockDirectory(directory);
    rmSync(directory, { recursive: true });
    release();
  });

  test('an embedded database holds it from its opening to its close', async () => {
    const first = openPGlite({ directory });
    expect(() => openPGlite({ directory })).toThrow(expect.objectContaining(inUse) as Error);
    await first.close();
    const second = openPGlite({ directory });
    await first.close();
    expect(() => openPGlite({ directory })).toThrow(expect.objectContaining(inUse) as Error);
    await second.close();
  });

  test('a directory that no database starts in is named, and given back', async () => {
    const database = openPGlite({ directory });
    // A link to nowhere, where the database wants a directory.
    symlinkSync(join(directory, 'nowhere'), join(directory, 'data'));
    await expect(sql`SELECT 1`.execute(database.db)).rejects.toMatchObject(inUse);
    await database.close();
    lockDirectory(directory)();
  });
});

describe('a lock file', () => {
  const self = ownIdentity();
  const parent = { host: self.host, pid: process.ppid };

  test.each<[string, Partial<ProcessIdentity> | string]>([
    ['of a process that is gone', { host: self.host, pid: 2 ** 22 + 1, started: null }],
    ['of a living process id with another start time', { ...parent, started: 'before the last boot 1' }],
    ['of this process id with another start time', { ...self, started: 'before the last boot 1' }],
    ['that was released', '{}'],
    ['that a power cut emptied', ''],
    ['that a power cut cut short', '{"host":"a'],
    ['that names no process', { host: self.host, pid: 0, started: null }],
  ])('is taken over: %s', (_name, content) => {
    plant(7, content);
    const release = lockDirectory(directory);
    expect(readdirSync(directory)).toEqual(['lock.8']);
    expect(JSON.parse(readFileSync(join(directory, 'lock.8'), 'utf8'))).toEqual(self);
    release();
  });

  test.each<[string, Partial<ProcessIdentity>, RegExp]>([
    ['of a living process', { ...parent, started: null }, new RegExp(`in use by process ${process.ppid}: wait`)],
    [
      'of another machine',
      { host: 'elsewhere', pid: 1, started: null },
      /another machine or container \(elsewhere\): .*lock\.7/,
    ],
  ])('is respected: %s', (_name, owner, message) => {
    plant(7, owner);
    expectRefusal(message);
    expect(readdirSync(directory)).toEqual(['lock.7']);
  });

  test('of a lower number than another says nothing', () => {
    plant(6, { ...parent, started: null });
    plant(7, '{}');
    lockDirectory(directory)();
    expect(readdirSync(directory)).toEqual(['lock.8']);
  });

  test.skipIf(process.getuid?.() === 0)('that may not be read is no free lock', () => {
    plant(7, { ...parent, started: null });
    chmodSync(join(directory, 'lock.7'), 0);
    expect(() => lockDirectory(directory)).toThrow(expect.objectContaining({ code: 'EACCES' }) as Error);
  });

  test.runIf(process.platform === 'linux')('knows when a process started, in this boot', () => {
    expect(self.started).toMatch(/^[0-9a-f-]{36} \d+$/);
    expect(stateOf(self)).toBe('alive');
  });
});
