/** Files and standard input that a command is told to read. */
import { readFile } from 'node:fs/promises';
import { describeError } from '../observe/describe-error.js';
import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';

/** A file cannot be read or written. */
export class FileError extends ExpungeError {
  readonly code = 'FILE';
  readonly outcome: ErrorOutcome = 'refused';

  constructor(what: 'read' | 'written', path: string, cause: unknown) {
    super(`The file ${path} cannot be ${what} (${describeError(cause).code}): check its path and its permissions.`, {
      cause,
    });
  }
}

/** The bytes of a file; `-` stands for standard input. @throws FileError */
export async function readInput(path: string): Promise<Uint8Array> {
  if (path === '-') return readStandardInput();
  try {
    return await readFile(path);
  } catch (error) {
    throw new FileError('read', path, error);
  }
}

/** Everything that comes on standard input. */
export async function readStandardInput(): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Uint8Array);
  return Buffer.concat(chunks);
}
