/**
 * Physical clean-up after an erase (contract WF-23). Deleted cells and pages were overwritten as they were freed
 * (`secure_delete`); what is left is what others freed before, what indexes noted of earlier deletes, and the write-ahead log.
 */
import type { Cleanup } from '../target.js';
import type { BoundPlace } from '../tables/bound-place.js';
import { quoted, refuseAborted, StoreFault } from '../tables/store/store.js';
import type { Connection } from './connection.js';
import type { SqliteCatalogue } from './read-catalogue.js';

export type CleanupReason =
  /** Somebody else held the file, so that something could not be done. */
  | 'LOCKED'
  /** The file is too large to be written anew in between; pages that were freed without `secure_delete` keep their content. */
  | 'FREE_PAGES'
  /** The write-ahead log could not be emptied while somebody reads. */
  | 'WRITE_AHEAD_LOG';

/** Bytes of a file that is written anew as a whole; a larger one would be locked for longer than a second or two. */
const VACUUM_BYTES = 256 * 1024 * 1024;

export async function cleanUp(
  connection: Connection,
  catalogue: SqliteCatalogue,
  places: readonly BoundPlace[],
  signal: AbortSignal,
): Promise<readonly Cleanup[]> {
  const did = new Map(places.map((place) => [place, ['secure_delete']]));
  const left = new Map<BoundPlace, CleanupReason[]>(places.map((place) => [place, []]));
  for (const place of places) {
    for (const index of indexesOf(place, catalogue)) {
      refuseAborted(signal);
      const done = await unlessBusy(() =>
        connection.query(`INSERT INTO main.${quoted(index)} (${quoted(index)}) VALUES ('optimize')`),
      );
      if (done) did.get(place)!.push('optimize');
      else left.get(place)!.push('LOCKED');
    }
  }
  refuseAborted(signal);
  const file = await cleanFile(connection);
  return places.map((place) => ({
    place: place.place,
    did: [...did.get(place)!, ...file.did],
    left: [...new Set([...left.get(place)!, ...file.left])],
  }));
}

function indexesOf({ relation }: BoundPlace, catalogue: SqliteCatalogue): readonly string[] {
  if (catalogue.searchIndexes.has(relation.oid)) return [relation.name];
  return [...catalogue.searchIndexes.values()]
    .filter(({ contentTable }) => contentTable?.toLowerCase() === relation.name.toLowerCase())
    .map(({ name }) => name);
}

async function cleanFile(
  connection: Connection,
): Promise<{ readonly did: readonly string[]; readonly left: readonly CleanupReason[] }> {
  const did: string[] = [];
  const left: CleanupReason[] = [];
  const bytes = (await numberOf(connection, 'page_count')) * (await numberOf(connection, 'page_size'));
  if (bytes > VACUUM_BYTES) left.push('FREE_PAGES');
  else if (await unlessBusy(() => connection.query('VACUUM'))) did.push('vacuum');
  else left.push('LOCKED');
  const [checkpoint] = await connection.query('PRAGMA wal_checkpoint(TRUNCATE)');
  if (checkpoint?.['busy'] === 1) left.push('WRITE_AHEAD_LOG');
  else did.push('checkpoint');
  return { did, left };
}

async function numberOf(connection: Connection, pragma: 'page_count' | 'page_size'): Promise<number> {
  const [row] = await connection.query(`PRAGMA ${pragma}`);
  return Number(row?.[pragma]);
}

async function unlessBusy(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (fault) {
    if (fault instanceof StoreFault && fault.kind === 'unavailable') return false;
    throw fault;
  }
}
