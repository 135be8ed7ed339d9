/**
 * Whether a name is spelled in the directory as it was asked for.
 *
 * A file system may take other spellings for the same name: capitals (APFS, SMB, ext4 with casefold), composed accents
 * (APFS, HFS+), a dot or a space at the end (SMB, FAT), a short name such as `CUSTOM~1` (FAT). `find` would then answer
 * with the neighbour's file (contract WF-14). No call tells how a file system does this, so it is tried out: another
 * spelling that leads to the same file shows a file system that folds, and there the directory is read for the exact name.
 */
import type { BigIntStats } from 'node:fs';

/** What has to be known of a directory. */
interface NamedEntries {
  /** What the system finds under this name, in whatever spelling it takes for the same. */
  stat(name: Buffer): Promise<BigIntStats | null>;
  /** The names as they are spelled. */
  entries(): AsyncIterable<{ readonly name: Buffer }>;
}

/** Reads a directory for a name. A name of digits and hyphens has one spelling, and costs nothing. */
export async function isExactName(directory: NamedEntries, name: Buffer, stats: BigIntStats): Promise<boolean> {
  const text = name.toString('utf8');
  if (/^[0-9-]+$/.test(text)) return true;
  if (!mayBeAlias(text) && !(await hasOtherSpelling(directory, text, stats))) return true;
  for await (const entry of directory.entries()) if (entry.name.equals(name)) return true;
  return false;
}

/** Names that some file system resolves to a longer or shorter one. */
function mayBeAlias(text: string): boolean {
  return /~|[. ]$/.test(text);
}

async function hasOtherSpelling(directory: NamedEntries, text: string, stats: BigIntStats): Promise<boolean> {
  const spellings = new Set([
    text.toUpperCase(),
    text.toLowerCase(),
    swapCase(text),
    text.normalize('NFC'),
    text.normalize('NFD'),
    `${text}.`,
  ]);
  spellings.delete(text);
  for (const spelling of spellings) {
    const other = await directory.stat(Buffer.from(spelling));
    if (other?.ino === stats.ino && other.dev === stats.dev) return true;
  }
  return false;
}

function swapCase(text: string): string {
  return [...text].map((char) => (char === char.toLowerCase() ? char.toUpperCase() : char.toLowerCase())).join('');
}
