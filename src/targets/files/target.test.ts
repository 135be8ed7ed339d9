import {
  chmod,
  chown,
  link,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
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
  slice,
} from '../../../test/support/files-target.js';
import { canAnchor } from './directory.js';
import { type FileSystem } from './file-system.js';
import type { FilesTarget, FilesTargetOptions } from './target.js';
import { MAX_DEPTH } from './walk.js';

let tree: FileTree;
beforeEach(async () => {
  tree = await fileTree(['customers', 'invoices', 'tenants']);
});
afterEach(async () => {
  await tree.close();
});

const target = (paths: readonly string[], more: Partial<FilesTargetOptions> = {}): FilesTarget =>
  filesTarget(tree.root, paths, more);

describe('what is removed', () => {
  it('removes the whole directory of the subject, and keeps those that others share', async () => {
    await tree.write('tenants/acme/accounts/1/a/b/c.txt');
    await tree.write('tenants/acme/accounts/1/d.txt');
    const files = target(['tenants/{tenantId}/accounts/{customerId}/']);
    expect(await count(files, customer('1'))).toBe(2);
    await erase(files, customer('1'));
    expect(await tree.list()).toEqual([
      'customers/',
      'invoices/',
      'tenants/',
      'tenants/acme/',
      'tenants/acme/accounts/',
    ]);
  });

  it('removes directories of the subject that become empty above a file, and no fixed one', async () => {
    await tree.write('customers/1/reports/2024/report.pdf');
    await tree.write('customers/2/reports/2024/report.pdf');
    await tree.write('customers/2/reports/notes.txt');
    const files = target(['customers/{customerId}/reports/2024/report.pdf']);
    await erase(files, customer('1'));
    await erase(files, customer('2'));
    expect(await tree.list()).toEqual([
      ...['customers/', 'customers/2/', 'customers/2/reports/', 'customers/2/reports/notes.txt'],
      ...['invoices/', 'tenants/'],
    ]);
  });

  it('counts an empty directory, since its name tells of the person, and removes it', async () => {
    await mkdir(join(tree.root, 'customers/1/empty'), { recursive: true });
    await mkdir(join(tree.root, 'customers/2'));
    const files = target(['customers/{customerId}/']);
    expect([await count(files, customer('1')), await count(files, customer('2'))]).toEqual([1, 1]);
    expect((await slice(files, customer('1'), 10)).reported).toEqual([{ place: 'customers/{customerId}/', rows: 1 }]);
    await erase(files, customer('2'), 1);
    expect(await tree.list()).toEqual(['customers/', 'invoices/', 'tenants/']);
  });

  it('counts a directory that a crash left empty, and so never takes it for gone', async () => {
    await tree.write('customers/1/report.pdf');
    const files = target(['customers/{customerId}/report.pdf']);
    await rm(join(tree.root, 'customers/1/report.pdf'));
    expect(await count(files, customer('1'))).toBe(1);
    await erase(files, customer('1'), 1);
    expect(await count(files, customer('1'))).toBe(0);
    expect(await readdir(join(tree.root, 'customers'))).toEqual([]);
  });

  it('removes one name of a file that has several, read-only files, and names that are not text', async () => {
    await tree.write('customers/1/linked', 'kept under its other name');
    await link(join(tree.root, 'customers/1/linked'), join(tree.outside, 'linked'));
    await writeFile(join(tree.root, 'customers/1/read-only'), '', { mode: 0o444 });
    for (const name of [Buffer.from([0xe9, 0x41]), Buffer.from('a\nb'), Buffer.from('-rf'), Buffer.from('*')]) {
      await writeFile(Buffer.concat([Buffer.from(join(tree.root, 'customers/1/')), name]), '');
    }
    const files = target(['customers/{customerId}/']);
    expect(await count(files, customer('1'))).toBe(6);
    await erase(files, customer('1'));
    expect(await readdir(join(tree.root, 'customers'))).toEqual([]);
    expect(await readFile(join(tree.outside, 'linked'), 'utf8')).toBe('kept under its other name');
  });

  it('WF-17: removes the files of every locator, and looks at them in bounded slices', async () => {
    const invoices = Array.from({ length: 30 }, (_, n) => `i-${n}`);
    for (const invoice of invoices.slice(0, 5)) await tree.write(`invoices/${invoice}.pdf`);
    await tree.write('invoices/i-30.pdf');
    const files = target(['invoices/{invoice}.pdf']);
    const subject = customer('1', [...invoices, ...invoices]);
    expect(await count(files, subject)).toBe(5);
    expect(await slice(files, subject, 7)).toMatchObject({ cursor: { place: 0, path: 7 }, done: false });
    expect(await erase(files, subject, 7)).toBe(5);
    expect(await readdir(join(tree.root, 'invoices'))).toEqual(['i-30.pdf']);
    expect(await count(files, customer('1', []))).toBe(0);
    await expect(count(files, customer('1'))).rejects.toEqual(fails('TARGET_FAILED', 'NO_VALUE'));
  });

  it('WF-15: goes through a large directory in slices, and reads no more of it than a slice needs', async () => {
    await mkdir(join(tree.root, 'customers/1'));
    for (let n = 0; n < 2500; n += 1) await writeFile(join(tree.root, `customers/1/${n}`), '');
    let unlinked = 0;
    const fs = before({ unlink: async () => void (unlinked += 1) });
    const files = target(['customers/{customerId}/'], { fs });
    expect(await count(files, customer('1'))).toBe(2500);
    await slice(files, customer('1'), 1000);
    expect(unlinked).toBe(1000);
    expect(await count(files, customer('1'))).toBe(1500);
    await erase(files, customer('1'), 1000);
    expect(unlinked).toBe(2500);
  });

  it('encodes values where that is declared', async () => {
    await tree.write('customers/u%2F1/a');
    await tree.write('customers/u%2F10/a');
    const files = target(['customers/{customerId}/'], { encode: 'uri' });
    await erase(files, customer('u/1'));
    expect(await readdir(join(tree.root, 'customers'))).toEqual(['u%2F10']);
  });

  it('never takes its marker for a file of a subject', async () => {
    await tree.write('.expunge-root', '');
    await tree.write('42', '');
    const files = target(['{customerId}'], { marker: '.expunge-root' });
    await erase(files, customer('.expunge-root'));
    await erase(files, customer('42'));
    expect(await readdir(tree.root)).toEqual(['.expunge-root', 'customers', 'invoices', 'tenants']);
  });
});

describe('what is not there', () => {
  it('WF-12: waits for a root that is missing, is a file, or has no marker, and finds zero nowhere', async () => {
    const marked = target(['customers/{customerId}/'], { marker: '.expunge-root' });
    await expect(marked.describe(signal)).rejects.toEqual(fails('TARGET_UNAVAILABLE', 'NO_MARKER'));
    await expect(count(marked, customer('1'))).rejects.toEqual(fails('TARGET_UNAVAILABLE', 'NO_MARKER'));
    await symlink('/dev/null', join(tree.root, '.expunge-root'));
    await expect(erase(marked, customer('1'))).rejects.toEqual(fails('TARGET_UNAVAILABLE', 'NO_MARKER'));
    await rm(join(tree.root, '.expunge-root'));
    await tree.write('.expunge-root', '');
    expect(await count(marked, customer('1'))).toBe(0);
    await tree.write('file', '');
    for (const [name, cause] of [
      ['missing', 'ENOENT'],
      ['file', 'ENOTDIR'],
    ] as const) {
      const away = target(['customers/{customerId}/'], { root: join(tree.root, name) });
      await expect(count(away, customer('1'))).rejects.toEqual(fails('TARGET_UNAVAILABLE', cause));
      await expect(erase(away, customer('1'))).rejects.toEqual(fails('TARGET_UNAVAILABLE', cause));
    }
  });

  it('refuses a declaration that names a directory which is not there, by its path', async () => {
    const files = target(['custmers/{customerId}/']);
    await expect(files.describe(signal)).rejects.toThrow(
      'needs the directory custmers below the root, and there is none',
    );
  });

  it('blocks where a directory lies in the place of a file, since it may hold anything', async () => {
    await tree.write('invoices/i.pdf/inside');
    const files = target(['invoices/{invoice}.pdf']);
    await expect(count(files, customer('1', ['i']))).rejects.toEqual(fails('TARGET_BLOCKED', 'DIRECTORY_FOR_FILE'));
    await expect(erase(files, customer('1', ['i']))).rejects.toEqual(fails('TARGET_BLOCKED', 'DIRECTORY_FOR_FILE'));
  });

  it('answers one subject with its error, and works for the others of the batch', async () => {
    await tree.write('invoices/bad.pdf/inside');
    await tree.write('invoices/good.pdf');
    const batch = new Map([
      ['bad', { ...customer('1', ['bad']), cursor: null }],
      ['good', { ...customer('2', ['good']), cursor: null }],
    ]);
    const answers = await target(['invoices/{invoice}.pdf']).erase(batch, { limit: 10, signal });
    expect(answers.get('bad')).toEqual(fails('TARGET_BLOCKED', 'DIRECTORY_FOR_FILE'));
    expect(answers.get('good')).toMatchObject({ done: true });
  });
});

describe('what a file system does', () => {
  const failing = (code: string): FileSystem =>
    before({
      unlink: () => Promise.reject(Object.assign(new Error(`${code}: /secret/path`), { code, syscall: 'unlink' })),
    });

  it.each(['EBUSY', 'ENOTCONN', 'ETIMEDOUT', 'EIO', 'ESTALE', 'EMFILE'])('waits where it answers %s', async (code) => {
    await tree.write('customers/1/a');
    const files = target(['customers/{customerId}/'], { fs: failing(code) });
    await expect(erase(files, customer('1'))).rejects.toEqual(fails('TARGET_UNAVAILABLE', code));
  });

  it.each(['EACCES', 'EPERM', 'EROFS', 'ENOSPC'])('fails where it answers %s, and names no path', async (code) => {
    await tree.write('customers/1/a');
    const files = target(['customers/{customerId}/'], { fs: failing(code) });
    const error = await erase(files, customer('1')).catch((thrown: unknown) => thrown);
    expect(error).toEqual(fails('TARGET_FAILED', code));
    expect((error as Error).message).not.toContain('/secret');
    expect((error as Error).cause).toBeUndefined();
  });

  it('takes a file that somebody else removed first for removed', async () => {
    await tree.write('customers/1/a');
    const fs = before({ unlink: once(() => rm(join(tree.root, 'customers/1/a'))) });
    await erase(target(['customers/{customerId}/'], { fs }), customer('1'));
    expect(await readdir(join(tree.root, 'customers'))).toEqual([]);
  });

  it('removes what appears while it empties a directory, and admits it when that does not end', async () => {
    await tree.write('customers/1/a');
    const late = once(() => tree.write('customers/1/late'));
    await erase(target(['customers/{customerId}/'], { fs: before({ rmdir: late }) }), customer('1'));
    expect(await readdir(join(tree.root, 'customers'))).toEqual([]);
    await tree.write('customers/1/a');
    const always = before({ rmdir: () => tree.write('customers/1/late') });
    const files = target(['customers/{customerId}/'], { fs: always });
    await expect(erase(files, customer('1'))).rejects.toEqual(fails('TARGET_FAILED', 'ENOTEMPTY'));
  });

  it('has every removal on disk when it answers: each directory that stays is synchronised after its last change', async () => {
    await tree.write('customers/1/a/b');
    await tree.write('invoices/i.pdf');
    const unsynchronised = new Set<string>();
    const nameOf = async (path: Buffer): Promise<string> => readlink(path.toString()).catch(() => path.toString());
    const parentOf = async (path: Buffer): Promise<string> =>
      nameOf(path.subarray(0, path.toString().lastIndexOf('/')));
    const note = async (path: Buffer): Promise<void> => void unsynchronised.add(await parentOf(path));
    const hooked = before({ unlink: note, rmdir: note });
    const fs: FileSystem = {
      ...hooked,
      openDirectory: async (path, follow) => {
        const handle = await hooked.openDirectory(path, follow);
        const name = await nameOf(Buffer.from(`/proc/self/fd/${handle.fd}`));
        return {
          ...handle,
          sync: async () => {
            await handle.sync();
            unsynchronised.delete(name);
          },
        };
      },
    };
    if (!canAnchor()) return;
    const files = target(['customers/{customerId}/', 'invoices/{invoice}.pdf'], { fs });
    await erase(files, customer('1', ['i']));
    const left = [];
    for (const name of unsynchronised) if ((await lstat(name).catch(() => null)) !== null) left.push(name);
    expect(unsynchronised.size).toBeGreaterThan(0);
    expect(left).toEqual([]);
  });

  it('blocks before it has more directories open than a process may have', async () => {
    const deep = `customers/1${'/d'.repeat(MAX_DEPTH + 5)}`;
    await mkdir(join(tree.root, deep), { recursive: true });
    const files = target(['customers/{customerId}/']);
    await expect(count(files, customer('1'))).rejects.toEqual(fails('TARGET_BLOCKED', 'TOO_DEEP'));
    await expect(erase(files, customer('1'))).rejects.toEqual(fails('TARGET_BLOCKED', 'TOO_DEEP'));
  });
});

describe.runIf(process.getuid !== undefined)('without the right to', () => {
  /** Does it as an ordinary user: permissions do not hold root back. */
  async function asOrdinaryUser<T>(work: () => Promise<T>): Promise<T> {
    const isRoot = process.getuid?.() === 0;
    if (isRoot) process.seteuid?.(65_534);
    try {
      return await work();
    } finally {
      if (isRoot) process.seteuid?.(0);
    }
  }

  it.each([
    ['read a directory', 0o000],
    ['change a directory', 0o555],
  ])('%s, fails with the name of the error and leaves the count as it is', async (_, mode) => {
    await tree.write('customers/1/a');
    const directory = join(tree.root, 'customers/1');
    if (process.getuid?.() === 0) {
      for (const path of [join(tree.root, '..'), tree.root, join(tree.root, 'customers'), directory]) {
        await chown(path, 65_534, 65_534);
      }
    }
    await chmod(directory, mode);
    const files = target(['customers/{customerId}/']);
    await asOrdinaryUser(() => expect(erase(files, customer('1'))).rejects.toEqual(fails('TARGET_FAILED', 'EACCES')));
    if (mode === 0) {
      await asOrdinaryUser(() => expect(count(files, customer('1'))).rejects.toEqual(fails('TARGET_FAILED', 'EACCES')));
    }
    await chmod(directory, 0o755);
    expect(await count(files, customer('1'))).toBe(1);
  });
});
