/** The few operations on files that the target is made of, and what makes each of them end when it is aborted. */
import { constants, type BigIntStats } from 'node:fs';
import * as node from 'node:fs/promises';

/** A name, or what `opendir` says of one: bytes, since a name need not be text. */
export interface DirectoryEntry {
  readonly name: Buffer;
  isDirectory(): boolean;
}

/** An open listing of a directory. */
export interface Listing {
  /** The next entry, or null after the last. */
  read(): Promise<DirectoryEntry | null>;
  close(): Promise<void>;
}

/** An open directory. */
export interface DirectoryHandle {
  readonly fd: number;
  stat(): Promise<BigIntStats>;
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** What the target asks of a file system. Tests put their faults here; everything else uses `nodeFileSystem`. */
export interface FileSystem {
  /** @param follow - whether the last name may be a symbolic link. */
  openDirectory(path: Buffer, follow: boolean): Promise<DirectoryHandle>;
  list(path: Buffer): Promise<Listing>;
  lstat(path: Buffer): Promise<BigIntStats>;
  realpath(path: Buffer): Promise<Buffer>;
  unlink(path: Buffer): Promise<void>;
  rmdir(path: Buffer): Promise<void>;
}

/** Entries that one call to the system reads. */
const LISTING_ENTRIES = 256;

export const nodeFileSystem: FileSystem = {
  async openDirectory(path, follow) {
    const flags = constants.O_RDONLY | constants.O_DIRECTORY | (follow ? 0 : constants.O_NOFOLLOW);
    const handle = await node.open(path, flags);
    return {
      fd: handle.fd,
      stat: () => handle.stat({ bigint: true }),
      sync: () => handle.sync(),
      close: () => handle.close(),
    };
  },
  // Node offers 'buffer' here, its type definitions do not.
  list: (path) =>
    node.opendir(path, { encoding: 'buffer' as 'utf8', bufferSize: LISTING_ENTRIES }) as unknown as Promise<Listing>,
  lstat: (path) => node.lstat(path, { bigint: true }),
  realpath: (path) => node.realpath(path, 'buffer'),
  unlink: (path) => node.unlink(path),
  rmdir: (path) => node.rmdir(path),
};

/** Whether this system can open a directory without following a link: every POSIX system can, Windows cannot. */
export const canRefuseLinks = typeof constants.O_NOFOLLOW === 'number' && constants.O_NOFOLLOW !== 0;

/**
 * Waits for `call`, or until the signal is aborted. A call to the system cannot be taken back: it may still happen
 * afterwards, which an erase has to stand anyway (it may run twice).
 *
 * @param release - takes what a call answers that nobody waits for any more.
 * @throws whatever the call throws; the signal's reason once it is aborted.
 */
export async function untilAborted<T>(
  signal: AbortSignal,
  call: Promise<T>,
  release?: (late: T) => Promise<void>,
): Promise<T> {
  let stop = (): void => undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => {
      reject(signal.reason as Error);
    };
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([call, aborted]);
  } catch (error) {
    if (signal.aborted) void call.then(release).catch(() => undefined);
    throw error;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/**
 * The errno name of what a call to the system threw, Node's own code (`ERR_...`), `UNKNOWN` for an error number without
 * a name, or null where it is no such error.
 */
export function errnoOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (typeof code === 'string' && /^E[A-Z0-9_]{1,40}$/.test(code)) return code;
  return syscall === undefined ? null : 'UNKNOWN';
}
