import { mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isExpungeError } from '../observe/expunge-error.js';
import { generateKeyFiles } from './generate-key-files.js';
import { KeyRingError, MissingKeyError } from './key-errors.js';
import { loadKeyRing, parseKeyRing } from './key-ring.js';
import { loadVerificationKeys, parseVerificationKeys } from './verification-keys.js';
import { KEY_FILE_NAMES, writeKeyFile, writeKeyFiles } from './write-key-files.js';

const files = generateKeyFiles({ period: '2025-11' });
const ring = (door: 'guard' | 'client' | 'worker') => parseKeyRing(files[door], `${door}.keys.json`);

/** A deep copy with one field, given by its path, changed. */
function changed(value: unknown, path: readonly (string | number)[], change: (old: unknown) => unknown): unknown {
  const copy = structuredClone(value);
  let owner = copy as Record<string | number, unknown>;
  for (const step of path.slice(0, -1)) owner = owner[step] as Record<string | number, unknown>;
  const last = path.at(-1) ?? '';
  owner[last] = change(owner[last]);
  return copy;
}

describe('the doors', () => {
  it('hold no more than each needs', () => {
    expect(Object.keys(files.guard).sort()).toEqual(['door', 'format', 'reference', 'version']);
    expect(Object.keys(files.client).sort()).toEqual(['door', 'format', 'reference', 'sealing', 'version']);
    const privateHalves = [...files.worker.sealing.keys, ...files.worker.signing.keys].map(({ d }) => d);
    const tokenKeys = Object.values(files.worker.receipt_token.keys);
    expect(privateHalves).toHaveLength(2);
    for (const secret of [...privateHalves, ...tokenKeys]) {
      expect(JSON.stringify([files.guard, files.client, files.verification])).not.toContain(secret);
    }
    expect(JSON.stringify(files.verification)).not.toContain(Object.values(files.guard.reference.keys)[0]);
  });

  it.each(['guard', 'client', 'worker'] as const)('all know the same reference keys: %s', (door) => {
    const id = files.guard.reference.reading;
    expect(ring(door).readingReferenceKeyId).toBe(id);
    expect(ring(door).writingReferenceKeyIds).toEqual([id]);
    expect(ring(door).referenceKey(id).key.export().toString('base64url')).toBe(files.guard.reference.keys[id]);
  });

  it('give the client the public sealing key alone', () => {
    expect(ring('client').sealingKey().key.type).toBe('public');
    expect(ring('worker').sealingKey().key.type).toBe('public');
    expect(ring('worker').openingKey(files.client.sealing.current).key.type).toBe('private');
  });

  it('are made anew each time', () => {
    const other = generateKeyFiles({ period: '2025-11' });
    expect(other.guard.reference.reading).not.toBe(files.guard.reference.reading);
    expect(other.worker.signing.keys[0]?.d).not.toBe(files.worker.signing.keys[0]?.d);
    expect(files.worker.sealing.current).toMatch(/^seal-2025-11-[0-9a-f]{12}$/);
  });
});

describe('WF-3: a missing key', () => {
  it.each<[string, () => unknown, string]>([
    ['an unknown reference key', () => ring('worker').referenceKey('ref-gone'), 'ref-gone'],
    ['sealing at the guard', () => ring('guard').sealingKey(), 'sealing'],
    [
      'opening at the client',
      () => ring('client').openingKey(files.client.sealing.current),
      files.client.sealing.current,
    ],
    ['opening with a destroyed key', () => ring('worker').openingKey('seal-2024-01'), 'seal-2024-01'],
    ['signing at the client', () => ring('client').signingKey(), 'signing'],
    ['a receipt token at the guard', () => ring('guard').receiptTokenKey(), 'receipt_token'],
    ['an unknown receipt-token key', () => ring('worker').receiptTokenKeyOf('token-gone'), 'token-gone'],
  ])('%s is a loud error that names the key and the file', (_name, use, id) => {
    let error: unknown;
    try {
      use();
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(MissingKeyError);
    expect(error).toMatchObject({ code: 'MISSING_KEY', outcome: 'failed', keyId: id });
    expect((error as Error).message).toMatch(
      new RegExp(`The key ${id}, .* is not in (guard|client|worker)\\.keys\\.json `),
    );
  });
});

describe('a key file that is refused', () => {
  it.each<[string, unknown, string]>([
    ['no object', 'text', '$ '],
    ['null', null, '$ '],
    ['an unknown door', changed(files.guard, ['door'], () => 'root'), '$.door '],
    ['a newer version', changed(files.guard, ['version'], () => 2), '$.version '],
    ['an unknown field', { ...files.guard, extra: 1 }, '$ unrecognized keys'],
    [
      'a short secret',
      changed(files.guard, ['reference', 'keys', files.guard.reference.reading], () => 'AAAA'),
      '$.reference.keys.(id) is not 32 bytes',
    ],
    [
      'no reference key',
      changed(files.guard, ['reference', 'keys'], () => ({})),
      '$.reference.writing names a key that is not in keys',
    ],
    ['no writing key', changed(files.guard, ['reference', 'writing'], () => []), '$.reference.writing too small'],
    [
      'a writing key twice',
      changed(files.guard, ['reference', 'writing'], (ids) => [...(ids as []), ...(ids as [])]),
      '$.reference.writing names a key twice',
    ],
    [
      'a reading key that nobody writes',
      changed(files.guard, ['reference', 'reading'], () => 'ref-other'),
      '$.reference.reading is not among',
    ],
    [
      'a private key at the client',
      changed(files.client, ['sealing', 'keys', 0], () => files.worker.sealing.keys[0]),
      '$.sealing.keys[0] unrecognized keys',
    ],
    [
      'a current key that is not there',
      changed(files.worker, ['signing', 'current'], () => 'sign-other'),
      '$.signing.current names a key',
    ],
    [
      'an id twice',
      changed(files.worker, ['signing', 'keys'], (keys) => [...(keys as []), ...(keys as [])]),
      '$.signing.keys holds an id twice',
    ],
    [
      'halves of two keys',
      changed(files.worker, ['signing', 'keys', 0, 'x'], () => files.worker.sealing.keys[0]?.x),
      '$.signing.keys[0] is not a private key',
    ],
    [
      'a key of another curve',
      changed(files.worker, ['signing', 'keys', 0], () => files.worker.sealing.keys[0]),
      '$.signing.keys[0].crv ',
    ],
    [
      'a public key of the wrong length',
      changed(files.client, ['sealing', 'keys', 0, 'x'], () => 'AAAA'),
      '$.sealing.keys[0] is not a public key',
    ],
    [
      'an id that is no id',
      changed(files.worker, ['signing', 'keys', 0, 'kid'], () => 'a.b'),
      '$.signing.keys[0].kid ',
    ],
  ])('%s', (_name, value, where) => {
    expect(() => parseKeyRing(value, 'x.json')).toThrow(KeyRingError);
    expect(() => parseKeyRing(value, 'x.json')).toThrow(`The key file x.json is refused: ${where}`);
  });

  it('WF-2: never repeats what stands in the file', () => {
    const secret = Object.values(files.guard.reference.keys)[0] ?? '';
    const garbled = [
      { ...files.guard, [secret]: 1 },
      changed(files.guard, ['door'], () => secret),
      changed(files.guard, ['reference', 'keys'], () => ({ [secret]: 1 })),
      changed(files.guard, ['reference', 'reading'], () => secret),
    ];
    for (const value of garbled) {
      expect(() => parseKeyRing(value, 'x.json')).toThrow(KeyRingError);
      expect(() => parseKeyRing(value, 'x.json')).not.toThrow(secret);
    }
  });

  it('gives no secret to a logger', () => {
    const worker = ring('worker');
    const printed =
      inspect(worker, { depth: 20, showHidden: true }) + JSON.stringify(worker) + inspect(worker.signingKey());
    for (const secret of [...Object.values(files.worker.reference.keys), files.worker.signing.keys[0]?.d ?? '']) {
      expect(printed).not.toContain(secret);
    }
  });
});

describe('REG-15: several keys', () => {
  it('tell what is written, what is read, and what is only known', () => {
    const other = generateKeyFiles().guard.reference;
    const third = generateKeyFiles().guard.reference;
    const rotating = parseKeyRing(
      {
        ...files.guard,
        reference: {
          reading: other.reading,
          writing: [files.guard.reference.reading, other.reading],
          keys: { ...files.guard.reference.keys, ...other.keys, ...third.keys },
        },
      },
      'guard.keys.json',
    );
    expect(rotating.readingReferenceKeyId).toBe(other.reading);
    expect(rotating.writingReferenceKeyIds).toEqual([files.guard.reference.reading, other.reading]);
    expect(rotating.referenceKey(third.reading).id).toBe(third.reading);
  });
});

describe('verification keys', () => {
  it('are the public halves of the signing keys', () => {
    const keys = parseVerificationKeys(files.verification, 'receipts.jwks.json');
    expect([...keys.keys()]).toEqual([files.worker.signing.current]);
    expect([...keys.values()][0]?.type).toBe('public');
  });

  it('accept the fields that other tools add', () => {
    const value = changed(files.verification, ['keys', 0], (key) => ({ ...(key as object), use: 'sig', alg: 'EdDSA' }));
    expect(parseVerificationKeys(value, 'x').size).toBe(1);
  });

  it.each<[string, unknown]>([
    ['a private key', { keys: files.worker.signing.keys }],
    ['no key', { keys: [] }],
    ['a sealing key', { keys: files.client.sealing.keys }],
    ['an id twice', { keys: [...files.verification.keys, ...files.verification.keys] }],
    ['a damaged key', changed(files.verification, ['keys', 0, 'x'], () => 'AAAA')],
    ['text', 'x'],
  ])('refuse %s', (_name, value) => {
    expect(() => parseVerificationKeys(value, 'x.json')).toThrow(KeyRingError);
  });
});

describe('key files on disk', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'expunge-keys-'));
  });
  afterEach(async () => {
    await rm(directory, { recursive: true });
  });

  it('are written for their owner alone, and read again', async () => {
    const paths = await writeKeyFiles(join(directory, 'new'), files);
    expect((await readdir(join(directory, 'new'))).sort()).toEqual(Object.values(KEY_FILE_NAMES).sort());
    for (const path of Object.values(paths)) expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await loadKeyRing(paths.worker)).signingKey().id).toBe(files.worker.signing.current);
    expect((await loadKeyRing(paths.guard)).door).toBe('guard');
    expect((await loadVerificationKeys(paths.verification)).size).toBe(1);
  });

  it('are never overwritten, not through a link either', async () => {
    const path = join(directory, 'a.json');
    await writeFile(path, 'kept');
    await symlink(path, join(directory, 'link.json'));
    await symlink(join(directory, 'nowhere'), join(directory, 'dangling.json'));
    for (const name of ['a.json', 'link.json', 'dangling.json']) {
      await expect(writeKeyFile(join(directory, name), files.guard)).rejects.toThrow('exists and is not overwritten');
    }
    expect(await readFile(path, 'utf8')).toBe('kept');
    expect(await readdir(directory)).toHaveLength(3);
  });

  it('are written all or none', async () => {
    await writeFile(join(directory, KEY_FILE_NAMES.worker), 'kept');
    await expect(writeKeyFiles(directory, files)).rejects.toThrow(KeyRingError);
    expect(await readdir(directory)).toEqual([KEY_FILE_NAMES.worker]);
    expect(await readFile(join(directory, KEY_FILE_NAMES.worker), 'utf8')).toBe('kept');
  });

  it('say why they cannot be read or written', async () => {
    await expect(loadKeyRing(join(directory, 'none.json'))).rejects.toThrow('cannot be read (ENOENT)');
    await expect(loadKeyRing(directory)).rejects.toThrow('cannot be read (EISDIR)');
    await expect(writeKeyFile(join(directory, 'none', 'a.json'), files.guard)).rejects.toThrow(
      'cannot be written (ENOENT)',
    );
    await writeFile(join(directory, 'file'), '');
    await expect(writeKeyFiles(join(directory, 'file', 'x'), files)).rejects.toThrow('cannot be written (ENOTDIR)');
  });

  it('WF-2: are not quoted where they are no JSON', async () => {
    const path = join(directory, 'a.json');
    await writeFile(path, '{"reference": topsecret');
    const error: unknown = await loadKeyRing(path).catch((thrown: unknown) => thrown);
    expect(isExpungeError(error, 'KEY_RING')).toBe(true);
    expect(inspect(error)).not.toContain('topsecret');
  });
});
