/**
 * One process at a time on an embedded database's directory: two would silently lose each other's committed rows.
 *
 * A lock is a file `lock.N` that names its owner. The owner is the file with the highest N, as long as that process lives.
 * Whoever finds it dead links `lock.N+1` into place, which exactly one can; numbers never go back, and files are removed
 * only below the own one, so that nobody ever removes a lock that it did not mean. Nothing has to be kept alive: the first
 * opening of a database blocks the event loop for seconds.
 *
 * The file alone decides, in this process too: another copy of this package, or another thread, sees the same file.
 */
import { randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { EmbeddedDatabaseError } from '../storage-error.js';
import { ownIdentity, type ProcessIdentity, stateOf } from './process-identity.js';

/**
 * Takes the lock, and keeps it until it is released or this process ends.
 * @returns the release; calling it again does nothing.
 * @throws EmbeddedDatabaseError when a living process has it, this one included, or one of another machine.
 */
export function lockDirectory(directory: string): () => void {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const self = ownIdentity();
  for (;;) {
    const held = highest(directory);
    if (held > 0) refuseIfOwned(directory, lockFile(directory, held), self);
    const mine = held + 1;
    // A slow one may link a number that is long over; then somebody else's is higher, and looks again.
    if (!take(directory, mine, self) || highest(directory) !== mine) continue;
    removeBelow(directory, mine);
    return releaseOnce(directory, mine);
  }
}

function lockFile(directory: string, number: number): string {
  return join(directory, `lock.${number}`);
}

function highest(directory: string): number {
  const numbers = readdirSync(directory).map((name) => Number(/^lock\.(\d+)$/.exec(name)?.[1] ?? 0));
  return Math.max(0, ...numbers);
}

function refuseIfOwned(directory: string, file: string, self: ProcessIdentity): void {
  const owner = read(file);
  if (owner === null) return;
  const advice = 'or set EXPUNGE_DATABASE_URL to a PostgreSQL server, which many processes can share';
  const state = stateOf(owner);
  if (state === 'elsewhere') {
    throw new EmbeddedDatabaseError(
      `The embedded database in ${directory} was opened on another machine or container (${owner.host}): end it there, or remove ${file} if it is gone, ${advice}.`,
    );
  }
  if (state === 'dead') return;
  const found =
    owner.pid === self.pid
      ? 'already open in this process: use the handle that has it'
      : `in use by process ${owner.pid}: wait for it to end`;
  throw new EmbeddedDatabaseError(`The embedded database in ${directory} is ${found}, ${advice}.`);
}

/** The owner that a file names; null when it was released, when its number is over, or when a power cut emptied it. */
function read(file: string): ProcessIdentity | null {
  try {
    const { host, pid, started } = JSON.parse(readFileSync(file, 'utf8')) as Partial<ProcessIdentity>;
    if (typeof host !== 'string' || !Number.isSafeInteger(pid) || pid === undefined || pid <= 0) return null;
    return { host, pid, started: typeof started === 'string' ? started : null };
  } catch (error) {
    // Any other fault, such as a missing right to read it, says nothing about the owner.
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** False when another one has that number. A link appears with its content, or not at all. */
function take(directory: string, number: number, self: ProcessIdentity): boolean {
  const draft = join(directory, `draft.${randomUUID()}`);
  try {
    writeFileSync(draft, JSON.stringify(self), { mode: 0o600 });
    linkSync(draft, lockFile(directory, number));
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

/** The file stays, naming nobody, so that its number is not used again. */
function releaseOnce(directory: string, number: number): () => void {
  let released = false;
  return () => {
    if (released) return;
    released = true;
    const draft = join(directory, `draft.${randomUUID()}`);
    try {
      writeFileSync(draft, '{}', { mode: 0o600 });
      renameSync(draft, lockFile(directory, number));
    } catch (error) {
      // Somebody removed the directory, and the lock with it.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  };
}
