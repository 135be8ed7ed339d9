/**
 * Verifies the receipts of a request off-line: with the export and the public keys, without the system (contract WF-22).
 *
 * What a clean result shows: a holder of the signing key signed exactly these receipts, in this order, from the first to the
 * final one; nothing was changed, dropped, added or moved since; and what they say is consistent. It cannot show that the
 * holder of the key told the truth.
 */
import { parseVerificationKeys, type VerificationKeys } from '../keys/verification-keys.js';
import { verifySignature, type SignatureFault } from '../keys/sign.js';
import { canonicalJson } from './canonical-json.js';
import type { Finding, FindingCode } from './finding.js';
import { receiptHash } from './receipt-chain.js';
import { checkCounts, checkFinal, type Genuine } from './receipt-checks.js';
import { MAX_EXPORTED_RECEIPTS, readReceiptExport } from './receipt-export.js';
import {
  RECEIPT_FORMAT_VERSION,
  receiptSchema,
  type FinalReceipt,
  type Receipt,
  type TargetReceipt,
} from './receipt.js';
import { MAX_RECEIPT_BYTES } from './write-receipt.js';

/** What came of a verification. */
export interface VerificationReport {
  /** True when there is not a single finding. */
  readonly verified: boolean;
  /** In the order of the export; what is about the whole comes last. */
  readonly findings: readonly Finding[];
  /** How many entries the export holds. */
  readonly receipts: number;
  /** Whose chain it is, by its first genuine receipt; null where there is none. */
  readonly chain: { readonly tenant: string; readonly requestId: string } | null;
}

/** What the auditor knows from elsewhere. */
export interface Expectation {
  /** The request that the export should be of: a whole chain of another request is genuine too. */
  readonly requestId?: string;
}

/**
 * Verifies an export. Never throws, whatever it is given.
 *
 * @param exported - the text or the bytes of an export file.
 * @param jwks - the public verification keys, as parsed JSON.
 */
export async function verifyReceipts(
  exported: unknown,
  jwks: unknown,
  expected: Expectation = {},
): Promise<VerificationReport> {
  const keys = readKeys(jwks);
  if (keys === null)
    return failed('UNREADABLE_KEYS', 'The verification keys are no JSON Web Key Set of Ed25519 public keys.');
  const entries = readReceiptExport(exported);
  if (entries === null)
    return failed('UNREADABLE_EXPORT', 'The export is not in the form expunge-receipts, version 1.');

  const read = await Promise.all(entries.map((entry, index) => readReceipt(keys, entry, index)));
  const genuine = read.filter((it): it is Genuine => !('code' in it));
  const refused = read.filter((it): it is Refused => 'code' in it);
  const requestId = expected.requestId ?? genuine[0]?.receipt.request_id;
  const first = genuine.find(({ receipt }) => receipt.request_id === requestId)?.receipt;

  const [chain, strays] = separateChains(genuine, first);
  const [single, copies] = removeCopies(chain);
  const [ordered, moved] = putInOrder(single);
  const findings = [
    ...[...refused, ...strays, ...copies, ...moved],
    ...checkLinks(ordered, refused),
    ...ordered.filter(isTarget).flatMap(checkCounts),
    ...checkEnd(ordered),
  ].sort(byIndex);
  return {
    verified: findings.length === 0,
    findings,
    receipts: entries.length,
    chain: first === undefined ? null : { tenant: first.tenant, requestId: first.request_id },
  };
}

/** An entry that is no genuine receipt: nothing that it claims is relied on. */
type Refused = Finding & { readonly index: number };

function readKeys(jwks: unknown): VerificationKeys | null {
  try {
    return parseVerificationKeys(jwks, 'the verification keys');
  } catch {
    return null;
  }
}

function failed(code: FindingCode, message: string): VerificationReport {
  return { verified: false, findings: [{ code, index: null, message }], receipts: 0, chain: null };
}

const SIGNATURE_FINDINGS: Readonly<Record<SignatureFault, readonly [FindingCode, string]>> = {
  unreadable: ['UNREADABLE_RECEIPT', 'is no signed receipt'],
  foreign: ['FOREIGN_SIGNATURE', 'is signed with a key that is not among the verification keys'],
  changed: ['CHANGED', 'was changed after it was signed, or was signed with another key than it names'],
};

/** Bounds the work: a signed text is longer than its receipt by a third for the encoding, and by its header and signature. */
const MAX_SIGNED_LENGTH = 2 * MAX_RECEIPT_BYTES;

async function readReceipt(keys: VerificationKeys, entry: unknown, index: number): Promise<Genuine | Refused> {
  const refuse = ([code, what]: readonly [FindingCode, string]): Refused => ({
    code,
    index,
    message: `Receipt ${index} ${what}.`,
  });
  if (typeof entry !== 'string' || entry.length > MAX_SIGNED_LENGTH) return refuse(SIGNATURE_FINDINGS.unreadable);
  const signature = await verifySignature(keys, 'expunge-receipt+json', entry);
  if (!signature.ok) return refuse(SIGNATURE_FINDINGS[signature.fault]);
  const payload = readPayload(signature.payload);
  if (payload === 'newer')
    return refuse(['UNSUPPORTED_VERSION', 'is of a form that this version cannot verify; use a newer one']);
  if (payload === 'unreadable')
    return refuse(['UNREADABLE_RECEIPT', 'is signed, but does not have the form of a receipt']);
  return { index, receipt: payload, hash: receiptHash(entry) };
}

function readPayload(bytes: Uint8Array): Receipt | 'newer' | 'unreadable' {
  if (bytes.length > MAX_RECEIPT_BYTES) return 'unreadable';
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    const value: unknown = JSON.parse(text);
    if (isNewer(value)) return 'newer';
    const receipt = receiptSchema.parse(value);
    // Not canonical means that two readers may understand it differently, for example by a key that stands twice.
    return canonicalJson(receipt) === text ? receipt : 'unreadable';
  } catch {
    return 'unreadable';
  }
}

function isNewer(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !('format_version' in value)) return false;
  return Number.isSafeInteger(value.format_version) && Number(value.format_version) > RECEIPT_FORMAT_VERSION;
}

/** The receipts of one chain, and a finding for each of another. */
function separateChains(genuine: readonly Genuine[], first: Receipt | undefined): [Genuine[], Finding[]] {
  const belongs = ({ receipt }: Genuine): boolean =>
    receipt.request_id === first?.request_id && receipt.tenant === first.tenant;
  const strays = genuine
    .filter((it) => !belongs(it))
    .map(({ index }): Finding => ({
      code: 'MIXED_CHAINS',
      index,
      message: `Receipt ${index} belongs to the chain of another request.`,
    }));
  return [genuine.filter(belongs), strays];
}

/** The first of those that claim the same place or id, and a finding for each further one. */
function removeCopies(chain: readonly Genuine[]): [Genuine[], Finding[]] {
  const kept: Genuine[] = [];
  const findings: Finding[] = [];
  const taken = new Map<string | number, Genuine>();
  for (const link of chain) {
    const { index, receipt, hash } = link;
    const before = taken.get(receipt.sequence) ?? taken.get(receipt.receipt_id);
    if (before === undefined) {
      taken.set(receipt.sequence, link).set(receipt.receipt_id, link);
      kept.push(link);
    } else if (before.hash === hash) {
      findings.push({ code: 'DUPLICATED', index, message: `Receipt ${index} is the same as receipt ${before.index}.` });
    } else {
      findings.push({
        code: 'FORKED',
        index,
        message: `Receipt ${index} claims the place or the id of receipt ${before.index}, with another content.`,
      });
    }
  }
  return [kept, findings];
}

/** The chain by its own numbers, and a finding for each that stood behind a later one. */
function putInOrder(chain: readonly Genuine[]): [Genuine[], Finding[]] {
  const findings: Finding[] = [];
  let highest = 0;
  for (const { index, receipt } of chain) {
    if (receipt.sequence < highest) {
      findings.push({
        code: 'REORDERED',
        index,
        message: `Receipt ${index} stands behind one that comes after it in the chain.`,
      });
    }
    highest = Math.max(highest, receipt.sequence);
  }
  return [[...chain].sort((left, right) => left.receipt.sequence - right.receipt.sequence), findings];
}

/** Gaps in the chain, and hashes that do not fit. An entry that was refused already accounts for one missing number. */
function checkLinks(ordered: readonly Genuine[], refused: readonly Refused[]): Finding[] {
  const findings: Finding[] = [];
  let previous: Genuine | null = null;
  for (const link of ordered) {
    const { index, receipt } = link;
    const from = previous?.index ?? -1;
    const missing = receipt.sequence - (previous?.receipt.sequence ?? 0) - 1;
    const dropped = missing - refused.filter((it) => from < it.index && it.index < index).length;
    if (dropped > 0) {
      findings.push({
        code: 'DROPPED',
        index,
        message: `Before receipt ${index}, ${dropped} of the chain are missing.`,
      });
    }
    if (missing === 0 && previous !== null && receipt.previous_hash !== previous.hash) {
      findings.push({
        code: 'BROKEN_LINK',
        index,
        message: `Receipt ${index} does not name the hash of the one before it, receipt ${previous.index}.`,
      });
    }
    previous = link;
  }
  return findings;
}

/** The final receipt: that there is one, that it is the last, and that it covers the others. */
function checkEnd(ordered: readonly Genuine[]): Finding[] {
  const end = ordered.findIndex(isFinal);
  const final = ordered[end];
  if (final === undefined || !isFinal(final)) {
    return [
      {
        code: 'TRUNCATED',
        index: null,
        message: 'No genuine final receipt closes the chain: it is cut off, or the request is not finished.',
      },
    ];
  }
  const after = ordered.slice(end + 1).map(({ index }): Finding => ({
    code: 'AFTER_FINAL',
    index,
    message: `Receipt ${index} stands behind the final one.`,
  }));
  const targets = ordered.slice(0, end).filter(isTarget);
  return [...after, ...checkFinal(final, targets)];
}

function isTarget(link: Genuine): link is Genuine<TargetReceipt> {
  return link.receipt.kind === 'target';
}

function isFinal(link: Genuine): link is Genuine<FinalReceipt> {
  return link.receipt.kind === 'final';
}

/** Findings about the whole come last. */
function byIndex(left: Finding, right: Finding): number {
  return (left.index ?? MAX_EXPORTED_RECEIPTS) - (right.index ?? MAX_EXPORTED_RECEIPTS);
}
