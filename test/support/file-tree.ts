/** A real directory for one test, with the shop's files in it and something outside that nobody may touch. */
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export interface FileTree {
  readonly root: string;
  /** A directory beside the root with a file `precious` in it. */
  readonly outside: string;
  /** Writes a file below the root, with its directories. */
  write(path: string, content?: string): Promise<void>;
  /** Every name below the root, directories with a slash at the end, sorted. */
  list(): Promise<readonly string[]>;
  close(): Promise<void>;
}

export async function fileTree(directories: readonly string[]): Promise<FileTree> {
  const base = await mkdtemp(join(tmpdir(), 'expunge-files-'));
  const [root, outside] = [join(base, 'root'), join(base, 'outside')];
  for (const directory of directories) await mkdir(join(root, directory), { recursive: true });
  await mkdir(outside);
  await writeFile(join(outside, 'precious'), 'precious');
  return {
    root,
    outside,
    async write(path, content = 'content') {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), content);
    },
    list: () => namesBelow(root, ''),
    close: () => rm(base, { recursive: true, force: true }),
  };
}

async function namesBelow(directory: string, prefix: string): Promise<string[]> {
  const names: string[] = [];
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    names.push(`${prefix}${entry.name}${entry.isDirectory() ? '/' : ''}`);
    if (entry.isDirectory()) names.push(...(await namesBelow(join(directory, entry.name), `${prefix}${entry.name}/`)));
  }
  return names.sort();
}
