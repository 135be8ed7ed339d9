import { mkdir, readdir, readlink, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fileTree, type FileTree } from '../../../test/support/file-tree.js';
import {
  before,
  count,
  customer,
  erase,
  fails,
  filesTarget,
  once,
  signal,
} from '../../../test/support/files-target.js';
import { canAnchor } from './directory.js';
import { nodeFileSystem, type FileSystem } from './file-system.js';
import type { FilesTarget, FilesTargetOptions } from './target.js';

let tree: FileTree;
beforeEach(async () => {
  tree = await fileTree(['customers', 'invoices', 'tenants']);
});
afterEach(async () => {
  await tree.close();
});

const target = (paths: readonly string[], more: Partial<FilesTargetOptions> = {}): FilesTarget =>
  filesTarget(tree.root, paths, more);

const ways = [
  ...(canAnchor() ? [['below open directories', true] as const] : []),
  ['by checked paths', false] as const,
];

describe.each(ways)('links, %s', (_, anchored) => {
  it('removes a link and never what it points to', async () => {
    await tree.write('customers/1/a/file');
    await symlink(tree.outside, join(tree.root, 'customers/1/a/directory-link'));
    await symlink(join(tree.outside, 'precious'), join(tree.root, 'customers/1/file-link'));
    await symlink('/nowhere', join(tree.root, 'customers/1/dangling'));
    await symlink(tree.outside, join(tree.root, 'customers/2'));
    await symlink(join(tree.outside, 'precious'), join(tree.root, 'invoices/i.pdf'));
    const files = target(['customers/{customerId}/', 'invoices/{invoice}.pdf'], { anchored });
    expect(await count(files, customer('1', []))).toBe(4);
    expect(await count(files, customer('2', ['i']))).toBe(2);
    await erase(files, customer('1', []));
    await erase(files, customer('2', ['i']));
    expect(await tree.list()).toEqual(['customers/', 'invoices/', 'tenants/']);
    expect(await readdir(tree.outside)).toEqual(['precious']);
  });

  it('blocks where a link stands on the way to a place, since a zero would be a guess', async () => {
    await mkdir(join(tree.outside, 'exports'));
    await symlink(tree.outside, join(tree.root, 'customers/1'));
    const files = target(['customers/{customerId}/exports/'], { anchored });
    await expect(count(files, customer('1'))).rejects.toEqual(fails('TARGET_BLOCKED', 'LINK_ON_THE_WAY'));
    await expect(erase(files, customer('1'))).rejects.toEqual(fails('TARGET_BLOCKED', 'LINK_ON_THE_WAY'));
    expect(await readdir(tree.outside)).toEqual(['exports', 'precious']);
  });

  it('refuses a link where the declaration names a directory, and follows one to the root', async () => {
    await symlink(tree.outside, join(tree.root, 'exports'));
    const files = target(['exports/{customerId}'], { anchored });
    await expect(files.describe(signal)).rejects.toEqual(fails('TARGET_DECLARATION', 'NO_DIRECTORY'));
    await expect(count(files, customer('precious'))).rejects.toEqual(fails('TARGET_DECLARATION', 'NO_DIRECTORY'));
    await symlink(tree.root, join(tree.outside, 'current'));
    await tree.write('customers/1/a');
    await erase(target(['customers/{customerId}/'], { anchored, root: join(tree.outside, 'current') }), customer('1'));
    expect(await readdir(join(tree.root, 'customers'))).toEqual([]);
  });

  it('stays inside when a directory is swapped for a link while it is read', async () => {
    await tree.write('customers/1/sub/precious');
    const swap = once(() => swapForLink('customers/1/sub', tree.outside));
    const fs = before({
      list: async (path) => {
        if (await leadsTo(path, 'sub')) await swap();
      },
    });
    const files = target(['customers/{customerId}/'], { fs, anchored });
    await erase(files, customer('1')).catch((error: unknown) => {
      // By checked paths the swap is seen and reported; below open directories it makes no difference.
      expect(error).toEqual(anchored ? undefined : fails('TARGET_UNAVAILABLE', 'EMOVED'));
    });
    expect(await readdir(tree.outside)).toContain('precious');
    await erase(target(['customers/{customerId}/'], { anchored }), customer('1'));
    expect(await count(files, customer('1'))).toBe(0);
    expect(await readdir(tree.outside)).toContain('precious');
  });
});

/** Whether the path, or the open directory that it stands for, has this name. */
async function leadsTo(path: Buffer, name: string): Promise<boolean> {
  const text = path.toString();
  const real = text.startsWith('/proc/self/fd/') ? await readlink(text).catch(() => '') : text;
  return real.endsWith(`/${name}`);
}

/** What an attacker with write access to the tree does: the directory moves away, and a link takes its place. */
async function swapForLink(path: string, to: string): Promise<void> {
  await rename(join(tree.root, path), join(tree.root, 'customers', 'moved'));
  await symlink(to, join(tree.root, path));
}

describe.runIf(canAnchor())('below open directories', () => {
  it('has no moment in which a swap leads out: also not between the last look and the removal', async () => {
    await tree.write('customers/1/sub/precious');
    const swap = once(() => swapForLink('customers/1/sub', tree.outside));
    const files = target(['customers/{customerId}/'], { fs: before({ unlink: swap }) });
    await erase(files, customer('1'));
    expect(await readdir(tree.outside)).toEqual(['precious']);
    expect(await tree.list()).toEqual(['customers/', 'customers/moved/', 'invoices/', 'tenants/']);
  });

  it('is not led out by a swap of a directory above, either', async () => {
    await tree.write('customers/1/sub/precious');
    const away = join(tree.outside, 'sub');
    await mkdir(away);
    await writeFile(join(away, 'precious'), 'precious');
    const swap = once(() => swapForLink('customers/1', tree.outside));
    await erase(target(['customers/{customerId}/'], { fs: before({ unlink: swap }) }), customer('1'));
    expect(await readdir(away)).toEqual(['precious']);
  });

  it('keeps a directory open as long as an aborted call may still reach it by the number of its descriptor', async () => {
    await tree.write('customers/1/file');
    const events: string[] = [];
    const controller = new AbortController();
    let arrive = (): void => undefined;
    const arrived = new Promise<void>((resolve) => void (arrive = resolve));
    let answer = (): void => undefined;
    const answered = new Promise<void>((resolve) => void (answer = resolve));
    const hooked = before({
      unlink: async () => {
        arrive();
        await answered;
      },
    });
    let unlinkedOnce = (): void => undefined;
    const unlinked = new Promise<void>((resolve) => void (unlinkedOnce = resolve));
    let closedAll = (): void => undefined;
    const closed = new Promise<void>((resolve) => void (closedAll = resolve));
    let open = 0;
    const fs: FileSystem = {
      ...hooked,
      unlink: (path) =>
        hooked.unlink(path).finally(() => {
          events.push('unlinked');
          unlinkedOnce();
        }),
      openDirectory: async (path, follow) => {
        const handle = await nodeFileSystem.openDirectory(path, follow);
        const name = (await readlink(`/proc/self/fd/${handle.fd}`)).split('/').at(-1) ?? '';
        open += 1;
        return {
          ...handle,
          close: async () => {
            events.push(`closed ${name}`);
            await handle.close();
            open -= 1;
            if (open === 0) closedAll();
          },
        };
      },
    };
    const batch = new Map([['ref', { ...customer('1'), cursor: null }]]);
    const files = target(['customers/{customerId}/'], { fs });
    const erasing = files.erase(batch, { limit: 10, signal: controller.signal });
    await arrived;
    controller.abort(new Error('enough'));
    await expect(erasing).rejects.toThrow('enough');
    answer();
    await Promise.all([unlinked, closed]);
    expect(events.indexOf('unlinked')).toBeLessThan(events.indexOf('closed 1'));
  });

  it('leaves no directory open, whatever happens', async () => {
    await tree.write('customers/1/a/b/c');
    await symlink(tree.outside, join(tree.root, 'customers/2'));
    const open = async (): Promise<number> => (await readdir('/proc/self/fd')).length;
    const files = target(['customers/{customerId}/exports/x', 'customers/{customerId}/a/']);
    const failing = target(['customers/{customerId}/'], {
      fs: before({ unlink: () => Promise.reject(Object.assign(new Error('EIO'), { code: 'EIO' })) }),
    });
    const start = await open();
    await count(files, customer('1'));
    await expect(count(files, customer('2'))).rejects.toThrow();
    await expect(erase(failing, customer('1'))).rejects.toThrow();
    await erase(files, customer('1'));
    await expect(target(['missing/{customerId}/']).describe(signal)).rejects.toThrow();
    expect(await open()).toBe(start);
  });
});
