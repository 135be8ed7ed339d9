/** A files target on a real directory, driven a subject at a time. */
import { expect } from 'vitest';
import { nodeFileSystem, type FileSystem } from '../../src/targets/files/file-system.js';
import { FilesTarget, type FilesTargetOptions } from '../../src/targets/files/target.js';
import { parseTemplate } from '../../src/targets/files/template.js';
import { TargetError } from '../../src/targets/target-error.js';
import type { EraseProgress, TargetSubject } from '../../src/targets/target.js';

/** A target on these paths, in which `invoice` is a locator. */
export function filesTarget(root: string, paths: readonly string[], more: Partial<FilesTargetOptions>): FilesTarget {
  const templates = paths.map((path) => parseTemplate(path, 'paths', ['invoice']));
  return new FilesTarget('files', { root, templates, marker: null, encode: 'verbatim', ...more });
}

export const signal = new AbortController().signal;
export const customer = (customerId: string, invoice?: readonly string[]): TargetSubject => ({
  identifiers: { customerId, tenantId: 'acme' },
  locators: invoice === undefined ? {} : { invoice },
});

/** What is counted over all places, or the error that the subject was answered with. */
export async function count(files: FilesTarget, subject: TargetSubject): Promise<number> {
  const answer = (await files.count(new Map([['ref', subject]]), signal)).get('ref');
  if (answer === undefined || answer instanceof TargetError) throw answer ?? new Error('no answer');
  return answer.reduce((sum, { matched }) => sum + matched, 0);
}

export async function slice(
  files: FilesTarget,
  subject: TargetSubject,
  limit: number,
  cursor: EraseProgress['cursor'] = null,
) {
  const answer = (await files.erase(new Map([['ref', { ...subject, cursor }]]), { limit, signal })).get('ref');
  if (answer === undefined || answer instanceof TargetError) throw answer ?? new Error('no answer');
  return answer;
}

export async function erase(files: FilesTarget, subject: TargetSubject, limit = 1000): Promise<number> {
  let progress = await slice(files, subject, limit);
  let slices = 1;
  for (; !progress.done; slices += 1) progress = await slice(files, subject, limit, progress.cursor);
  return slices;
}

export const fails = (code: string, cause: string): unknown =>
  expect.objectContaining({ code, detail: expect.objectContaining({ cause }) as unknown });

/** The machine's file system, with something done just before some call to it. */
export function before(hooks: Partial<Record<keyof FileSystem, (path: Buffer) => Promise<void>>>): FileSystem {
  const hooked = async (name: keyof FileSystem, path: Buffer): Promise<void> => hooks[name]?.(path);
  return {
    openDirectory: async (path, follow) => {
      await hooked('openDirectory', path);
      return nodeFileSystem.openDirectory(path, follow);
    },
    list: async (path) => {
      await hooked('list', path);
      return nodeFileSystem.list(path);
    },
    lstat: async (path) => {
      await hooked('lstat', path);
      return nodeFileSystem.lstat(path);
    },
    realpath: async (path) => nodeFileSystem.realpath(path),
    unlink: async (path) => {
      await hooked('unlink', path);
      return nodeFileSystem.unlink(path);
    },
    rmdir: async (path) => {
      await hooked('rmdir', path);
      return nodeFileSystem.rmdir(path);
    },
  };
}

/** Runs once, at the first call. */
export function once(work: () => Promise<void>): () => Promise<void> {
  let ran = false;
  return async () => {
    if (ran) return;
    ran = true;
    await work();
  };
}
