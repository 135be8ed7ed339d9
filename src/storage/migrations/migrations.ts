/** The migrations that this program knows: additive, numbered, and told apart by their checksums. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

export interface Migration {
  readonly number: number;
  readonly name: string;
  /** SHA-256 of the text, before the schema's name is put in. */
  readonly checksum: string;
  readonly text: string;
}

const files = ['0001-requests', '0002-registry', '0003-batches', '0004-standing-approvals'] as const;

let loaded: readonly Migration[] | undefined;

/** All of them, in the order of their numbers, which begin at 1 and have no gap. */
export function migrations(): readonly Migration[] {
  loaded ??= files.map((file) => {
    // A checkout may have changed the ends of lines, which would change the checksum.
    const text = readFileSync(new URL(`./${file}.sql`, import.meta.url), 'utf8').replaceAll('\r\n', '\n');
    return {
      number: Number(file.slice(0, 4)),
      name: file.slice(5),
      checksum: createHash('sha256').update(text).digest('hex'),
      text,
    };
  });
  return loaded;
}
