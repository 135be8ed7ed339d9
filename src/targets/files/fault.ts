/** What an error of the file system means to the engine. Its own message holds paths, and so identifiers: it ends here. */
import {
  TargetBlockedError,
  TargetDeclarationError,
  TargetError,
  TargetFailedError,
  TargetUnavailableError,
  type TargetErrorDetail,
} from '../target-error.js';
import { MovedError, NotRemovedError } from './directory.js';
import { errnoOf } from './file-system.js';
import { NotEmptyError, ObstacleError, MAX_DEPTH, type Obstacle } from './walk.js';

/** Errors of a volume that is away, busy, or out of something that comes back: waiting helps. */
const UNAVAILABLE = new Set([
  ...['EAGAIN', 'EBUSY', 'ECONNABORTED', 'ECONNREFUSED', 'ECONNRESET', 'EHOSTDOWN', 'EHOSTUNREACH', 'EINTR', 'EIO'],
  ...['EMFILE', 'ENETDOWN', 'ENETUNREACH', 'ENFILE', 'ENODEV', 'ENOLCK', 'ENOMEM', 'ENOTCONN', 'ENXIO', 'EPIPE'],
  ...['EREMOTEIO', 'ESTALE', 'ETIMEDOUT', 'ETXTBSY'],
]);

const OBSTACLES: Readonly<Record<Obstacle, string>> = {
  LINK_ON_THE_WAY: 'a symbolic link stands where a directory is declared, and links are never followed',
  DIRECTORY_FOR_FILE: 'a directory lies where one file is declared',
  TOO_DEEP: `directories lie more than ${MAX_DEPTH} deep in one another`,
};

/**
 * @param error - whatever an operation threw.
 * @returns a TargetError with names and codes only; a TargetError as it is; anything that is neither an error of the
 *   system nor one of ours (an abort) as it is.
 */
export function asTargetError(error: unknown, target: string, place?: string): unknown {
  if (error instanceof TargetError) return error;
  const where = place === undefined ? target : `${target}: ${place}`;
  const detail = (cause: string): TargetErrorDetail => ({ target, ...(place !== undefined && { place }), cause });
  if (error instanceof ObstacleError) {
    const { obstacle } = error;
    return new TargetBlockedError(
      `${where}: ${OBSTACLES[obstacle]}; look at it and remove it by hand`,
      detail(obstacle),
    );
  }
  if (error instanceof NotRemovedError || error instanceof NotEmptyError) {
    return new TargetFailedError(`${where}: something is still there after its removal succeeded`, detail(error.code));
  }
  if (error instanceof MovedError) {
    return new TargetUnavailableError(`${where}: a directory was moved during the work`, detail(error.code));
  }
  const errno = errnoOf(error);
  if (errno === null) return error;
  return UNAVAILABLE.has(errno)
    ? new TargetUnavailableError(`${where}: the files cannot be reached (${errno}); it is tried again`, detail(errno))
    : new TargetFailedError(`${where}: the file system refused (${errno}); ${advice(errno)}`, detail(errno));
}

function advice(errno: string): string {
  if (errno === 'EACCES') return 'give this process the right to read and write the directories of the place';
  if (errno === 'EPERM') return 'a file may be immutable, or its directory sticky';
  if (errno === 'EROFS') return 'mount the volume for writing';
  return 'see what the file system says of the place';
}

/** The root is not there, or not the volume that it should be. */
export function rootUnavailable(target: string, root: string, cause: string): TargetUnavailableError {
  const why = cause === 'NO_MARKER' ? 'has no marker file' : 'is not there';
  return new TargetUnavailableError(
    `${target}: the root ${root} ${why}: mount its volume, or correct the declaration`,
    { target, cause },
  );
}

/** A directory that a template names without any value in it. */
export function parentMissing(target: string, place: string, parent: string, found: string): TargetDeclarationError {
  return new TargetDeclarationError(
    `${target}: ${place} needs the directory ${parent} below the root, and ${found}: create it, or correct the path`,
    { target, place, cause: 'NO_DIRECTORY' },
  );
}
