/** What an interrupted life may leave behind that is not what an undisturbed one leaves. */
import { isDeepStrictEqual } from 'node:util';
import type { Picture, ReceiptPicture, StagePicture } from './life-picture.js';
import type { Statement } from './postgres-proxy.js';

export interface Disturbance {
  /** The undisturbed life's statements, in order. */
  readonly statements: readonly Statement[];
  /** The number of the one that was interrupted, from 1. */
  readonly number: number;
  /** Whether a target lost its server, and the process lived to see it: then its visit is over, and comes again. */
  readonly isTargets: boolean;
}

/** Where the first difference is, and what it is; null where there is none. */
export function differenceOf(plain: Picture, disturbed: Picture, disturbance: Disturbance): string | null {
  if (!disturbance.isTargets) return firstDifference(plain, disturbed);
  const receipts = withExcusedCleanup(plain.receipts, disturbed.receipts, disturbance);
  return firstDifference(apartFromVisits(plain), apartFromVisits({ ...disturbed, receipts }));
}

/** A visit that was postponed comes again after the other targets' visits, so that their order is another one. */
function apartFromVisits(picture: Picture): object {
  const receipts = picture.receipts
    .map((receipt) => ({ ...receipt, sequence: 0, previous_hash: null }))
    .sort((one, other) => (String(one.target) < String(other.target) ? -1 : 1));
  const stages = picture.stages.map(inWords).filter((words) => !words.endsWith(' postponed'));
  const once = new Set(['submitted', 'approved', 'initialized', 'completed', 'cancelled']);
  const events = picture.events.map(({ event }) => event).filter((event) => once.has(event));
  return { ...picture, receipts, stages: stages.sort(), events };
}

function inWords({ stage, target_community_id, metadata_json }: StagePicture): string {
  return `${stage} ${target_community_id ?? '-'} ${metadata_json.result?.state ?? '-'}`;
}

/** Clean-up is tried once. A receipt says that it failed, and only where the statement was one of it. */
function withExcusedCleanup(
  plain: readonly ReceiptPicture[],
  disturbed: readonly ReceiptPicture[],
  { statements, number }: Disturbance,
): readonly ReceiptPicture[] {
  const met = statements[number - 1];
  const vacuums = statements.filter(({ text }) => text.startsWith('VACUUM'));
  if (!vacuums.some(({ connection }) => connection === met?.connection)) return disturbed;
  return disturbed.map((receipt) => {
    const expected = plain.find(({ target }) => target === receipt.target)?.physical;
    const failed = expected?.cleanup?.map((place) => ({ ...place, did: [], left: ['CLEANUP_FAILED'] }));
    const isFailed = failed !== undefined && isDeepStrictEqual(receipt.physical?.cleanup, failed);
    return isFailed ? { ...receipt, physical: { ...receipt.physical, ...expected } } : receipt;
  });
}

function firstDifference(one: unknown, other: unknown, path = ''): string | null {
  if (isDeepStrictEqual(one, other)) return null;
  if (isObject(one) && isObject(other)) {
    for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
      const found = firstDifference(one[key], other[key], `${path}.${key}`);
      if (found !== null) return found;
    }
  }
  return `${path} is ${JSON.stringify(other)} and not ${JSON.stringify(one)}`;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
