/** Counting and erasing what lies at a path. Links are names like any other; they are never followed. */
import { within, type Directory } from './directory.js';
import type { SubjectPath } from './template.js';

/** Directories in one another. Each takes a descriptor while it is worked in. */
export const MAX_DEPTH = 200;

/** Times that a directory is emptied in one slice while somebody writes into it. */
const PASSES = 3;

/** Why a person has to look: waiting and trying again do not help. */
export type Obstacle = 'LINK_ON_THE_WAY' | 'DIRECTORY_FOR_FILE' | 'TOO_DEEP';

export class ObstacleError extends Error {
  readonly obstacle: Obstacle;
  constructor(obstacle: Obstacle) {
    super(obstacle);
    this.obstacle = obstacle;
  }
}

/** A directory that does not become empty. */
export class NotEmptyError extends Error {
  readonly code = 'ENOTEMPTY';
}

/**
 * Copies at the path: names that are not directories, and directories with nothing in them, since the name of a
 * directory may tell of the person too. Zero means that nothing is left, not even an empty directory.
 */
export async function countAt(parent: Directory, path: SubjectPath, index = 0): Promise<number> {
  const name = path.names[index] as Buffer;
  const kind = await parent.find(name);
  if (kind === null) return 0;
  if (index === path.names.length - 1) {
    if (kind !== 'directory') return 1;
    if (!path.isDirectory) throw new ObstacleError('DIRECTORY_FOR_FILE');
    return countTree(parent, name, 1);
  }
  const directory = await openOnTheWay(parent, name, kind);
  if (directory === null) return 0;
  return within(directory, async () => {
    const found = await countAt(directory, path, index + 1);
    return found === 0 && index >= path.ownedFrom && (await directory.isEmpty()) ? 1 : found;
  });
}

async function countTree(parent: Directory, name: Buffer, depth: number): Promise<number> {
  if (depth > MAX_DEPTH) throw new ObstacleError('TOO_DEEP');
  const directory = await parent.open(name);
  // It became something else, or went away, since it was listed.
  if (directory === null) return (await parent.find(name)) === null ? 0 : 1;
  return within(directory, async () => {
    let [found, names] = [0, 0];
    for await (const entry of directory.entries()) {
      names += 1;
      found += entry.isDirectory ? await countTree(directory, entry.name, depth + 1) : 1;
    }
    return names === 0 ? 1 : found;
  });
}

/** A directory between the declared ones and the last name; null where nothing can lie below it. */
async function openOnTheWay(parent: Directory, name: Buffer, kind: string): Promise<Directory | null> {
  // What lies behind the link is not in the place, and it may well be the person's: never a silent zero.
  if (kind === 'link') throw new ObstacleError('LINK_ON_THE_WAY');
  return kind === 'directory' ? parent.open(name) : null;
}

/** What one slice may still remove. */
export class Slice {
  left: number;
  removed = 0;

  constructor(limit: number) {
    this.left = limit;
  }

  /** Notes a copy that was removed. */
  spend(): void {
    this.left -= 1;
    this.removed += 1;
  }
}

/**
 * Removes what lies at the path, and directories of the subject alone that become empty.
 *
 * @returns whether all of it is gone; false where the slice's limit came first.
 */
export async function eraseAt(parent: Directory, path: SubjectPath, slice: Slice, index = 0): Promise<boolean> {
  const name = path.names[index] as Buffer;
  const kind = await parent.find(name);
  if (kind === null) return true;
  if (index === path.names.length - 1) {
    if (kind === 'directory' && !path.isDirectory) throw new ObstacleError('DIRECTORY_FOR_FILE');
    return kind === 'directory' ? eraseTree(parent, name, slice, 1) : eraseName(parent, name, slice, 1);
  }
  const directory = await openOnTheWay(parent, name, kind);
  if (directory === null) return true;
  const before = slice.removed;
  const finished = await within(directory, () => eraseAt(directory, path, slice, index + 1));
  if (!finished || index < path.ownedFrom) return finished;
  // One that was empty before is a copy of its own; one that this slice emptied is part of what it held.
  const emptyBefore = slice.removed === before;
  if (emptyBefore && slice.left === 0) return false;
  const gone = await removeIfEmpty(parent, name);
  if (gone && emptyBefore) slice.spend();
  return true;
}

async function removeIfEmpty(parent: Directory, name: Buffer): Promise<boolean> {
  return (await parent.find(name)) === 'directory' && (await parent.removeDirectory(name));
}

async function eraseTree(parent: Directory, name: Buffer, slice: Slice, depth: number): Promise<boolean> {
  if (depth > MAX_DEPTH) throw new ObstacleError('TOO_DEEP');
  for (let pass = 0; pass < PASSES; pass += 1) {
    const directory = await parent.open(name);
    if (directory === null) return eraseName(parent, name, slice, depth);
    const before = slice.removed;
    const finished = await within(
      directory,
      () => eraseBelow(directory, slice, depth),
      (isEmpty) => !isEmpty,
    );
    const emptyBefore = slice.removed === before;
    if (!finished || (emptyBefore && slice.left === 0)) return false;
    if (await parent.removeDirectory(name)) {
      if (emptyBefore) slice.spend();
      return true;
    }
  }
  throw new NotEmptyError('a directory is not empty after all that was in it was removed');
}

async function eraseBelow(directory: Directory, slice: Slice, depth: number): Promise<boolean> {
  for await (const { name, isDirectory } of directory.entries()) {
    if (slice.left === 0) return false;
    const finished = isDirectory
      ? await eraseTree(directory, name, slice, depth + 1)
      : await eraseName(directory, name, slice, depth + 1);
    if (!finished) return false;
  }
  return true;
}

async function eraseName(parent: Directory, name: Buffer, slice: Slice, depth: number): Promise<boolean> {
  if (slice.left === 0) return false;
  const outcome = await parent.unlink(name);
  if (outcome === 'directory') return eraseTree(parent, name, slice, depth);
  if (outcome === 'removed') slice.spend();
  return true;
}
