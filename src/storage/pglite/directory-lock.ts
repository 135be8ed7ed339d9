/**
 * One process at a time on an embedded database's directory: two would silently lose each other's committed rows.
 *
 * A lock is a file `lock.N` that names its owner by process id and start time (a process id alone is reused). The owner is
 * the file with the highest N, as long as that process lives. Whoever finds it dead links `lock.N+1` into place, which
 * exactly one can; numbers never go back, and files are removed only below the own one, so that nobody ever removes
 * a lock that it did not mean. Nothing has to be kept alive: the first opening blocks the event loop for seconds.
 */
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { EmbeddedDatabaseError } from '../storage-error.js';

interface Owner {
  readonly pid: number;
  readonly started: string;
}

/** The directories that this process has open: a second opening in here would do the same harm. */
const own = new Set<string>();

/**
 * Takes the lock, and keeps it until `unlockDirectory` or the end of this process.
 * @throws EmbeddedDatabaseError when a living process has it, this one included.
 */
export function lockDirectory(directory: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const self: Owner = { pid: process.pid, started: startTime(process.pid) ?? 'unknown' };
  for (;;) {
    const held = highest(directory);
    const owner = held === 0 ? null : read(join(directory, `lock.${held}`));
    const isOwn = owner?.pid === self.pid && owner.started === self.started;
    if (owner !== null && (isOwn ? own.has(resolve(directory)) : isAlive(owner))) throw inUse(directory, owner);
    if (take(directory, held + 1, self) && highest(directory) === held + 1) {
      removeBelow(directory, held + 1);
      own.add(resolve(directory));
      return;
    }
  }
}

/** Gives the lock back: the file stays, naming nobody, so that its number is not used again. */
export function unlockDirectory(directory: string): void {
  const held = highest(directory);
  const owner = held === 0 ? null : read(join(directory, `lock.${held}`));
  own.delete(resolve(directory));
  if (owner?.pid === process.pid) writeFileSync(join(directory, `lock.${held}`), '{"pid":0,"started":"released"}');
}

function highest(directory: string): number {
  const numbers = readdirSync(directory).map((name) => Number(/^lock\.(\d+)$/.exec(name)?.[1] ?? 0));
  return Math.max(0, ...numbers);
}

function read(file: string): Owner | null {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Owner;
  } catch {
    return null; // Removed by the owner of a higher number.
  }
}

function take(directory: string, number: number, self: Owner): boolean {
  const draft = join(directory, `draft.${randomUUID()}`);
  writeFileSync(draft, JSON.stringify(self), { mode: 0o600 });
  try {
    linkSync(draft, join(directory, `lock.${number}`));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

function removeBelow(directory: string, number: number): void {
  for (const name of readdirSync(directory)) {
    const found = /^lock\.(\d+)$/.exec(name);
    if (found !== null && Number(found[1]) < number) rmSync(join(directory, name), { force: true });
  }
}

function isAlive(owner: Owner): boolean {
  if (owner.pid <= 0) return false;
  const started = startTime(owner.pid);
  return started !== null && (owner.started === 'unknown' || started === owner.started);
}

/** When a process started, in the system's own words; null when there is no such process. */
function startTime(pid: number): string | null {
  try {
    if (process.platform === 'linux') {
      // The 22nd field; the second, in parentheses, may itself hold spaces.
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ');
      return fields[0] === 'Z' ? null : (fields[19] ?? null);
    }
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || null;
  } catch {
    return null;
  }
}

function inUse(directory: string, owner: Owner): EmbeddedDatabaseError {
  return new EmbeddedDatabaseError(
    `The embedded database in ${directory} is in use by process ${owner.pid}: wait for it to end, or set EXPUNGE_DATABASE_URL to a PostgreSQL server, which many processes can share.`,
  );
}
