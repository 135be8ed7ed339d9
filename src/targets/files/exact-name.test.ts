import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TargetSubject } from '../target.js';
import { nodeFileSystem, type FileSystem } from './file-system.js';
import { FilesTarget } from './target.js';
import { parseTemplate } from './template.js';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'expunge-names-'));
});
afterEach(async () => {
  await rm(root, { recursive: true, force: true });
});

/** The machine's file system, which finds a name in another spelling too, as `fold` says. */
function folding(fold: (name: string) => string): FileSystem {
  const found = async (path: Buffer): Promise<Buffer> => {
    const text = path.toString();
    const [directory, name] = [text.slice(0, text.lastIndexOf('/')), text.slice(text.lastIndexOf('/') + 1)];
    const names = await readdir(directory).catch((): string[] => []);
    const other = names.includes(name) ? name : names.find((candidate) => fold(candidate) === fold(name));
    return Buffer.from(`${directory}/${other ?? name}`);
  };
  return {
    ...nodeFileSystem,
    openDirectory: async (path, follow) => nodeFileSystem.openDirectory(follow ? path : await found(path), follow),
    lstat: async (path) => nodeFileSystem.lstat(await found(path)),
    unlink: async (path) => nodeFileSystem.unlink(await found(path)),
    rmdir: async (path) => nodeFileSystem.rmdir(await found(path)),
  };
}

const subject = (id: string): TargetSubject => ({ identifiers: { id }, locators: {} });
const signal = new AbortController().signal;

async function eraseOn(fs: FileSystem, id: string): Promise<void> {
  const files = new FilesTarget('files', {
    root,
    templates: [parseTemplate('{id}', 'paths', [])],
    marker: null,
    encode: 'verbatim',
    fs,
  });
  const batch = new Map([['ref', { ...subject(id), cursor: null }]]);
  expect((await files.erase(batch, { limit: 10, signal })).get('ref')).toMatchObject({ done: true });
}

describe('WF-14: a file system that folds names', () => {
  it.each([
    ['capitals', (name: string) => name.toLowerCase(), 'Ann', 'ann'],
    ['mixed capitals', (name: string) => name.toLowerCase(), 'aNn-1', 'AnN-1'],
    ['capitals beyond ASCII', (name: string) => name.toLowerCase(), 'Élan', 'éLAN'],
    ['composed accents', (name: string) => name.normalize('NFD'), '\u00e9', 'e\u0301'],
    ['composed accents, the other way', (name: string) => name.normalize('NFD'), 'e\u0301', '\u00e9'],
    ['dots and spaces at the end', (name: string) => name.replace(/[. ]+$/, ''), 'a.', 'a'],
    ['dots at the end, which the neighbour has', (name: string) => name.replace(/[. ]+$/, ''), 'a', 'a.'],
    [
      'long names into short ones',
      (name: string) => (name === 'custom~1' ? 'customer-42' : name),
      'custom~1',
      'customer-42',
    ],
  ])('%s: touches no neighbour, and finds its own', async (_, fold, own, neighbour) => {
    const fs = folding(fold);
    await writeFile(join(root, neighbour), 'of somebody else');
    await eraseOn(fs, own);
    expect(await readdir(root)).toEqual([neighbour]);
    await rm(join(root, neighbour));
    await writeFile(join(root, own), 'of the subject');
    await eraseOn(fs, own);
    expect(await readdir(root)).toEqual([]);
  });
});
