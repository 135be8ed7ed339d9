import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it } from 'vitest';
import { describeTarget } from '../../testing/describe-target.js';
import type { ConformanceOptions, PlantedPlace, TargetHarness, Undo } from '../../testing/harness.js';
import type { TargetSubject } from '../target.js';
import { faultyFileSystem } from '../../../test/support/faulty-file-system.js';
import { FilesTarget } from './target.js';
import { parseTemplate } from './template.js';

/** In memory where the machine has that: thousands of synchronised removals wait for a disk for minutes. */
const fast = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

const MARKER = '.expunge-root';
const DIRECTORY = 'customers/{customerId}/';
const SHARED = 'tenants/{tenantId}/accounts/{accountId}/';
const FILE = 'invoices/{invoice}.pdf';
const TEMPLATES = [DIRECTORY, SHARED, FILE].map((text, index) => parseTemplate(text, `paths[${index}]`, ['invoice']));

/** Where the application that generates the files puts them; null where it cannot. */
function pathsOf(place: string, { identifiers, locators }: TargetSubject): readonly string[] {
  const { customerId = '', tenantId = '', accountId = '' } = identifiers;
  const isName = (name: string): boolean =>
    name !== '.' && name !== '..' && !name.includes('/') && Buffer.byteLength(name) <= 255;
  if (place === DIRECTORY) return isName(customerId) ? [`customers/${customerId}`] : [];
  if (place === SHARED) {
    return isName(accountId) && isName(tenantId) ? [`tenants/${tenantId}/accounts/${accountId}`] : [];
  }
  return (locators['invoice'] ?? []).filter((name) => isName(`${name}.pdf`)).map((name) => `invoices/${name}.pdf`);
}

async function openHarness(anchored: boolean): Promise<TargetHarness> {
  const base = await mkdtemp(join(fast, 'expunge-files-'));
  const root = join(base, 'root');
  for (const parent of ['customers', 'tenants', 'invoices']) await mkdir(join(root, parent), { recursive: true });
  await writeFile(join(root, MARKER), '');
  const faulty = faultyFileSystem();
  const options = { root, templates: TEMPLATES, marker: MARKER, encode: 'verbatim', fs: faulty.fs, anchored } as const;
  const open = (): FilesTarget => new FilesTarget('files', options);
  let written = 0;
  const write = async (path: string, content: string): Promise<void> => {
    written += 1;
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, `${content} ${written}`);
  };
  const moved = async (path: string): Promise<Undo> => {
    await rename(path, join(base, 'away'));
    return () => rename(join(base, 'away'), path);
  };
  return {
    target: open(),
    reopen: async () => open(),
    plant: async (subject, copies, secret) => {
      const planted: PlantedPlace[] = [];
      for (const place of [DIRECTORY, SHARED, FILE]) {
        const paths = pathsOf(place, subject).map((path) => join(root, path));
        if (place !== FILE) {
          // Some at the top, some in a directory of their own, some together: `${n % 3}` takes turns.
          for (const path of paths) {
            for (let n = 0; n < copies; n += 1) {
              await write(join(path, ['.', `own ${written}`, 'together'][n % 3] ?? '', `file ${written}`), secret);
            }
          }
          planted.push({ place, copies: paths.length * copies });
        } else {
          const missing = [];
          for (const path of paths) if ((await contentOf(path)) === null) missing.push(path);
          for (const path of missing) await write(path, secret);
          planted.push({ place, copies: missing.length });
        }
      }
      return planted;
    },
    fingerprint: async (subject) => {
      const hash = createHash('sha256');
      for (const path of [DIRECTORY, SHARED, FILE].flatMap((place) => pathsOf(place, subject))) {
        hash.update(JSON.stringify(await treeOf(join(root, path))));
      }
      return hash.digest('hex');
    },
    fault: async (kind) => {
      if (kind === 'down') return moved(root);
      if (kind === 'missing') return moved(join(root, 'customers'));
      return faulty.break(kind);
    },
    close: () => rm(base, { recursive: true, force: true }),
  };
}

async function contentOf(path: string): Promise<string | null> {
  return readFile(path, 'utf8').catch(() => null);
}

/** Names and contents of everything at a path. */
async function treeOf(path: string): Promise<unknown> {
  const names = await readdir(path).catch(() => null);
  if (names === null) return contentOf(path);
  const tree: [string, unknown][] = [];
  for (const name of names.sort()) tree.push([name, await treeOf(join(path, name))]);
  return tree;
}

function conformance(anchored: boolean): ConformanceOptions {
  return {
    open: () => openHarness(anchored),
    identifiers: ['customerId', 'tenantId', 'accountId'],
    composite: ['tenantId', 'accountId'],
    locators: ['invoice'],
    faults: ['down', 'slow', 'half', 'silent', 'missing'],
  };
}

if (process.platform === 'linux') describeTarget('files, below open directories', conformance(true), { describe, it });
describeTarget('files, by checked paths', conformance(false), { describe, it });
