/**
 * An open directory, and what is done to the names in it without ever following a symbolic link.
 *
 * The guarantee. On Linux with `/proc`, a name is always resolved below an open directory, as `openat` and `unlinkat`
 * do: `/proc/self/fd/N/name` starts from the directory that descriptor N holds, wherever it was moved meanwhile, and
 * every directory on the way was opened with O_NOFOLLOW. Whoever swaps a directory for a link during the walk therefore
 * cannot lead it out of the root: the link is met as a name, and removed as one.
 *
 * Elsewhere (macOS, a container without `/proc`) Node has no such call. There each operation checks first that the path
 * of its directory still leads, without any link, to the directory that was opened. Between this check and the operation
 * lies a window of some microseconds in which a swap by somebody with write access to the tree is not seen.
 */
import { existsSync, type BigIntStats } from 'node:fs';
import { isExactName } from './exact-name.js';
import { errnoOf, untilAborted, type DirectoryHandle, type FileSystem } from './file-system.js';

/** What a name stands for. A symbolic link is a `file`, whatever it points to. */
export type EntryKind = 'file' | 'link' | 'directory';

/** What every operation needs. */
export interface FileAccess {
  readonly fs: FileSystem;
  readonly signal: AbortSignal;
  /** Whether names are resolved below `/proc/self/fd`; false takes the portable way. */
  readonly anchored: boolean;
}

/** Whether this machine can resolve names below an open directory. */
export function canAnchor(): boolean {
  return process.platform === 'linux' && existsSync('/proc/self/fd');
}

/** File systems that cannot synchronise a directory answer so: it is then durable when they say. */
const NO_SYNC = ['EINVAL', 'ENOTSUP', 'ENOSYS'];

/** Answers of the system that mean that there is nothing of this name. */
const ABSENT = ['ENOENT', 'ENAMETOOLONG'];

/** The store said that it removed something, and it is still there. */
export class NotRemovedError extends Error {
  readonly code = 'ENOTREMOVED';
}

/** On the portable way: the directory is no longer where it was opened. */
export class MovedError extends Error {
  readonly code = 'EMOVED';
}

export class Directory {
  readonly #access: FileAccess;
  readonly #handle: DirectoryHandle;
  readonly #path: Buffer;
  /** Calls to the system that have the path of this directory in them. */
  readonly #pending = new Set<Promise<unknown>>();
  #changed = false;

  private constructor(access: FileAccess, handle: DirectoryHandle, path: Buffer) {
    this.#access = access;
    this.#handle = handle;
    this.#path = access.anchored ? Buffer.from(`/proc/self/fd/${handle.fd}`) : path;
  }

  /** Opens a directory by its path, which is configuration and may lead through links. */
  static async at(access: FileAccess, path: string): Promise<Directory> {
    const { fs, signal } = access;
    const bytes = Buffer.from(path);
    const real = access.anchored ? bytes : await untilAborted(signal, fs.realpath(bytes));
    const handle = await untilAborted(signal, fs.openDirectory(real, access.anchored), (late) => late.close());
    return new Directory(access, handle, real);
  }

  /** Opens a directory in this one; null where the name is absent, a link or a file. */
  async open(name: Buffer): Promise<Directory | null> {
    const { fs } = this.#access;
    const path = await this.#at(name);
    try {
      const handle = await this.#run(fs.openDirectory(path, false), (late) => late.close());
      return new Directory(this.#access, handle, path);
    } catch (error) {
      if ([...ABSENT, 'ENOTDIR', 'ELOOP'].includes(errnoOf(error) ?? '')) return null;
      throw error;
    }
  }

  /**
   * What this directory has under exactly this name, byte by byte; null where there is nothing. On a file system that
   * takes `Ann` for `ann` or `é` for `é`, another spelling is nothing.
   */
  async find(name: Buffer): Promise<EntryKind | null> {
    const stats = await this.stat(name);
    if (stats === null || !(await isExactName(this, name, stats))) return null;
    if (stats.isDirectory()) return 'directory';
    return stats.isSymbolicLink() ? 'link' : 'file';
  }

  /** What the system finds under this name, in whatever spelling it takes for the same. */
  async stat(name: Buffer): Promise<BigIntStats | null> {
    const { fs } = this.#access;
    const path = await this.#at(name);
    try {
      return await this.#run(fs.lstat(path));
    } catch (error) {
      if (ABSENT.includes(errnoOf(error) ?? '')) return null;
      throw error;
    }
  }

  /** Everything in the directory, in no order, a page at a time. What is removed meanwhile may or may not be listed. */
  async *entries(): AsyncGenerator<{ readonly name: Buffer; readonly isDirectory: boolean }, void, undefined> {
    const { fs, signal } = this.#access;
    await this.#check();
    const listing = await this.#run(fs.list(this.#path), (late) => late.close());
    let reading: Promise<unknown> = Promise.resolve();
    try {
      for (;;) {
        const next = listing.read();
        reading = next;
        const entry = await untilAborted(signal, next);
        if (entry === null) return;
        yield { name: entry.name, isDirectory: entry.isDirectory() };
      }
    } finally {
      // A listing cannot be closed while it is being read, which after an abort it may be for long.
      const closing = reading.catch(() => undefined).then(() => listing.close());
      if (signal.aborted) void closing.catch(() => undefined);
      else await closing;
    }
  }

  async isEmpty(): Promise<boolean> {
    for await (const _ of this.entries()) return false;
    return true;
  }

  /**
   * Removes a name that is not a directory: the link, never its target; one name of a file, never its others.
   *
   * @returns `absent` where somebody else was faster, `directory` where it has become one.
   * @throws NotRemovedError where the system reports success and the name is still there.
   */
  async unlink(name: Buffer): Promise<'removed' | 'absent' | 'directory'> {
    const { fs } = this.#access;
    const path = await this.#at(name);
    try {
      await this.#run(fs.unlink(path));
    } catch (error) {
      const code = errnoOf(error) ?? '';
      if (ABSENT.includes(code)) return 'absent';
      if (code === 'EISDIR') return 'directory';
      // POSIX allows EPERM for a directory too, and macOS answers so.
      if (code === 'EPERM' && (await this.stat(name))?.isDirectory() === true) return 'directory';
      throw error;
    }
    await this.#removed(name);
    return 'removed';
  }

  /** Removes an empty directory; false where it is not empty, or no directory any more. One that is gone is success. */
  async removeDirectory(name: Buffer): Promise<boolean> {
    const { fs } = this.#access;
    const path = await this.#at(name);
    try {
      await this.#run(fs.rmdir(path));
    } catch (error) {
      const code = errnoOf(error) ?? '';
      if (ABSENT.includes(code)) return true;
      if (['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(code)) return false;
      throw error;
    }
    await this.#removed(name);
    return true;
  }

  async #removed(name: Buffer): Promise<void> {
    this.#changed = true;
    if ((await this.stat(name)) !== null) throw new NotRemovedError('a name is still there after its removal');
  }

  /** Makes the removals in this directory outlive a power cut. */
  async sync(): Promise<void> {
    if (!this.#changed) return;
    try {
      await this.#run(this.#handle.sync());
    } catch (error) {
      if (!NO_SYNC.includes(errnoOf(error) ?? '')) throw error;
    }
    this.#changed = false;
  }

  /**
   * Closes the directory once no call to the system has its path any more: an aborted call may still be on its way, and
   * would resolve the number of the descriptor to whatever is opened next. After an abort this does not wait for it.
   */
  async close(): Promise<void> {
    const closing = Promise.allSettled(this.#pending).then(() => this.#handle.close());
    await untilAborted(this.#access.signal, closing);
  }

  /** Makes a call that has the path of this directory in it. */
  async #run<T>(call: Promise<T>, release?: (late: T) => Promise<void>): Promise<T> {
    this.#pending.add(call);
    const settled = (): void => void this.#pending.delete(call);
    call.then(settled, settled);
    return untilAborted(this.#access.signal, call, release);
  }

  async #at(name: Buffer): Promise<Buffer> {
    this.#access.signal.throwIfAborted();
    await this.#check();
    return Buffer.concat([this.#path, Buffer.from('/'), name]);
  }

  /** On the portable way: that the path still leads to what was opened, through no link. */
  async #check(): Promise<void> {
    const { anchored, fs, signal } = this.#access;
    if (anchored) return;
    const [opened, real] = await untilAborted(
      signal,
      Promise.all([this.#handle.stat(), fs.realpath(this.#path).catch(() => null)]),
    );
    const found = real === null || !real.equals(this.#path) ? null : await untilAborted(signal, fs.lstat(real));
    if (found?.dev !== opened.dev || found.ino !== opened.ino) {
      throw new MovedError('a directory is no longer where it was opened');
    }
  }
}

/**
 * Works in a directory, makes what was removed there durable, and closes it, also when the work fails.
 *
 * @param stays - whether the directory stays; one that is removed itself needs no sync.
 */
export async function within<T>(
  directory: Directory,
  work: (directory: Directory) => Promise<T>,
  stays: (result: T) => boolean = () => true,
): Promise<T> {
  let worked = false;
  try {
    const result = await work(directory);
    if (stays(result)) await directory.sync();
    worked = true;
    return result;
  } finally {
    // The error of the work says more than that of closing.
    await directory.close().catch((error: unknown) => {
      if (worked) throw error;
    });
  }
}
