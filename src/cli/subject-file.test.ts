import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { BatchLine } from '../client/batch-source.js';
import { subjectFile } from './subject-file.js';

describe('a file of subjects', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'expunge-file-'));
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  /** Written under this name, and read twice. */
  async function read(name: string, content: string | Uint8Array, format?: string): Promise<readonly BatchLine[]> {
    const path = join(directory, name);
    await writeFile(path, content);
    const source = subjectFile(path, format);
    const readings = [];
    for (let reading = 0; reading < 2; reading += 1) {
      const lines: BatchLine[] = [];
      for await (const line of source()) lines.push(line);
      readings.push(lines);
    }
    expect(readings[1]).toEqual(readings[0]);
    return readings[0] ?? [];
  }

  it('reads CSV whose header names the identifiers, with quotes, empty lines, a mark and the ends of lines of Windows', async () => {
    expect(await read('a.csv', '\uFEFFcustomerId,email\r\n1,"a, ""b""@x.org"\r\n\r\n 2,ß@x.org')).toEqual([
      { position: 2, identifiers: { customerId: '1', email: 'a, "b"@x.org' } },
      { position: 4, identifiers: { customerId: ' 2', email: 'ß@x.org' } },
    ]);
    expect(await read('b.txt', 'id\n1\n2\n', 'csv')).toMatchObject([{ position: 2 }, { position: 3 }]);
  });

  it('reads one JSON object a line', async () => {
    expect(await read('a.ndjson', '{"id":"1"}\n\n  {"id":"\u00e9"}\r\n{"id":"3"}')).toEqual([
      { position: 1, identifiers: { id: '1' } },
      { position: 3, identifiers: { id: 'é' } },
      { position: 4, identifiers: { id: '3' } },
    ]);
    expect(await read('b.JSONL', '{"id":"1"}')).toHaveLength(1);
  });

  it('names a line that cannot be read, without a word of it, and goes on where it can', async () => {
    const lines = [
      ...(await read('c.csv', 'id,email\n1\nx,y,secret\n2,"secret\n')),
      ...(await read('d.csv', 'id,id\nsecret,secret\n')),
      ...(await read('e.csv', `id\n"${'secret'.repeat(20_000)}`)),
      ...(await read('f.csv', Buffer.concat([Buffer.from('id\n1\nsecret'), Buffer.of(0xff), Buffer.from('\n')]))),
      ...(await read('c.ndjson', '{"id":"1"\n["secret"]\n"secret"\n{"id":1}\n{"id":"5"}\n')),
      ...(await read('d.ndjson', `{"id":"${'secret'.repeat(20_000)}`)),
      ...(await read('e.ndjson', Buffer.concat([Buffer.from('{"id":"'), Buffer.of(0xc3, 0x28), Buffer.from('"}\n')]))),
    ];
    expect(JSON.stringify(lines)).not.toContain('secret');
    const faults = lines.map((line) =>
      'fault' in line ? `${line.position} ${line.fault.split(' ').slice(0, 4).join(' ')}` : line.position,
    );
    expect(faults).toEqual([
      '2 It has more or',
      '3 It has more or',
      '4 Its quotes do not',
      '1 The header names a',
      '2 It is longer than',
      expect.stringContaining('From here on it'),
      '1 It is no JSON',
      '2 It is no JSON',
      '3 It is no JSON',
      '4 It has a value',
      5,
      '1 It is longer than',
      '1 From here on it',
    ]);
  });

  it('asks what it is where its name does not tell, and cannot read standard input twice', async () => {
    expect(() => subjectFile('people.txt', undefined)).toThrow('--format csv');
    expect(() => subjectFile('people.csv', 'xml')).toThrow('csv, ndjson');
    expect(() => subjectFile('-', 'csv')).toThrow('read twice');
    const missing = subjectFile(join(directory, 'missing.csv'), undefined);
    await expect(missing()[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: 'FILE' });
  });
});
