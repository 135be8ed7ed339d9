/** Key files on disk. They are created, never changed: an overwritten key takes everything that it sealed with it. */
import { mkdir, open, unlink, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { KeyFiles } from './generate-key-files.js';
import { KeyRingError } from './key-errors.js';

/** The file of each door, and of the auditor. */
export const KEY_FILE_NAMES = {
  guard: 'guard.keys.json',
  client: 'client.keys.json',
  worker: 'worker.keys.json',
  verification: 'receipts.jwks.json',
} as const satisfies Record<keyof KeyFiles, string>;

/**
 * Writes one file that its owner alone may read (0600), and makes it durable.
 * @throws KeyRingError where the path exists already, as a file or a link, or cannot be written; nothing is left half-written.
 */
export async function writeKeyFile(path: string, content: KeyFiles[keyof KeyFiles]): Promise<void> {
  let file: FileHandle;
  try {
    file = await open(path, 'wx', 0o600);
  } catch (error) {
    throw notWritten(path, error);
  }
  try {
    await file.writeFile(`${JSON.stringify(content, null, 2)}\n`, 'utf8');
    await file.sync();
  } catch (error) {
    await unlink(path);
    throw notWritten(path, error);
  } finally {
    await file.close();
  }
}

/**
 * Writes the four files of {@link KEY_FILE_NAMES} into a directory, which is made where it is missing (0700). All or none:
 * where one cannot be written, those written by this call are removed again.
 *
 * @returns the path of each.
 * @throws KeyRingError as {@link writeKeyFile} does.
 */
export async function writeKeyFiles(directory: string, files: KeyFiles): Promise<Record<keyof KeyFiles, string>> {
  const paths = {
    guard: join(directory, KEY_FILE_NAMES.guard),
    client: join(directory, KEY_FILE_NAMES.client),
    worker: join(directory, KEY_FILE_NAMES.worker),
    verification: join(directory, KEY_FILE_NAMES.verification),
  };
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw notWritten(directory, error);
  }
  const written: string[] = [];
  try {
    for (const name of ['guard', 'client', 'worker', 'verification'] as const) {
      await writeKeyFile(paths[name], files[name]);
      written.push(paths[name]);
    }
  } catch (error) {
    await Promise.all(written.map((path) => unlink(path)));
    throw error;
  }
  return paths;
}

function notWritten(path: string, error: unknown): KeyRingError {
  const code = (error as NodeJS.ErrnoException).code ?? 'unknown';
  return code === 'EEXIST'
    ? new KeyRingError(
        `The key file ${path} exists and is not overwritten, because what it protects would be lost; choose another directory.`,
      )
    : new KeyRingError(`The key file ${path} cannot be written (${code}); check the directory and its permissions.`);
}
