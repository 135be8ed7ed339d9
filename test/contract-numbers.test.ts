/** Whoever reads a number in a test or in the source finds it in docs/contracts. */
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';

const ROOT = path.join(import.meta.dirname, '..');
const NUMBER = /\b(?:EX|OP|WF|REG|FE|WB|RS|ACT|ORP)-\d+\b/g;

test('every contract number that the code or a test names is explained in docs/contracts', async () => {
  const documents = await textsIn('docs/contracts', '.md');
  const explained = new Set(
    documents.flatMap((text) => [...text.matchAll(/\*\*([A-Z]+-\d+)\*\*/g)].map(([, name]) => name)),
  );
  const named = new Set(
    (await Promise.all(['src', 'test'].map((folder) => textsIn(folder, '.ts'))))
      .flat()
      .flatMap((text) => text.match(NUMBER) ?? []),
  );
  expect(named.size).toBeGreaterThan(50);
  expect([...named].filter((name) => !explained.has(name)).sort()).toEqual([]);
});

async function textsIn(folder: string, extension: string): Promise<string[]> {
  const names = await readdir(path.join(ROOT, folder), { recursive: true });
  const files = names.filter((name) => name.endsWith(extension));
  return Promise.all(files.map((name) => readFile(path.join(ROOT, folder, name), 'utf8')));
}
