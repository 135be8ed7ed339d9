import { CompactSign } from 'jose';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { generateKeyFiles } from '../keys/generate-key-files.js';
import { parseKeyRing, type KeyRing } from '../keys/key-ring.js';
import type { JsonObject, JsonValue } from '../storage/json.js';
import { aFinalOutcome, aHead, aTargetOutcome, DIGEST } from '../../test/support/receipts.js';
import { canonicalBytes } from './canonical-json.js';
import { linkAfter, receiptHash, signReceipt, type SignedReceipt } from './receipt-chain.js';
import { exportReceipts, MAX_EXPORTED_RECEIPTS } from './receipt-export.js';
import type { FinalReceipt, Receipt, TargetReceipt } from './receipt.js';
import { verifyReceipts } from './verify-receipts.js';
import { finalReceipt, targetReceipt } from './write-receipt.js';

const files = generateKeyFiles();
const worker = parseKeyRing(files.worker, 'worker.keys.json');
const stranger = parseKeyRing(generateKeyFiles().worker, 'stranger.keys.json');
const REQUEST = aHead().requestId;
const OTHER_REQUEST = '01993c1e-0000-7000-8000-00000000000b';
const OTHER_DIGEST = 'ab'.repeat(32);
const TARGETS = ['operational', 'analytical', 'search'];

interface ChainOptions {
  readonly ring?: KeyRing;
  /** Signs the final receipt; `ring` where it is absent. */
  readonly lastRing?: KeyRing;
  readonly requestId?: string;
  readonly tenant?: string;
  readonly targets?: readonly string[];
  /** Changes receipts after they were made and before they are signed: what only a holder of the key can do. */
  readonly target?: (receipt: TargetReceipt) => TargetReceipt;
  readonly final?: (receipt: FinalReceipt) => FinalReceipt;
}

/** The signed receipts of a request: one for each target, and the final one. */
async function aChain(options: ChainOptions = {}): Promise<string[]> {
  const {
    ring = worker,
    requestId = REQUEST,
    tenant = 'shop',
    targets = TARGETS,
    target = (it) => it,
    final = (it) => it,
  } = options;
  const signed: string[] = [];
  let last: SignedReceipt | null = null;
  const head = () => {
    const link = linkAfter(last === null ? null : { sequence: last.receipt.sequence, hash: last.hash });
    return aHead({ requestId, tenant, n: link.sequence, link });
  };
  for (const name of targets) {
    last = await signReceipt(ring, target(targetReceipt(head(), aTargetOutcome({ target: name }))));
    signed.push(last.jws);
  }
  const covered = targets.map((name) => ({ target: name, resurrections: 0 }));
  last = await signReceipt(options.lastRing ?? ring, final(finalReceipt(head(), aFinalOutcome({ targets: covered }))));
  return [...signed, last.jws];
}

const verify = (receipts: readonly unknown[]) =>
  verifyReceipts(exportReceipts(receipts as string[]), files.verification);

/** The findings as `CODE@index`, or `CODE` where they are about the whole. */
async function findings(receipts: readonly unknown[]): Promise<string[]> {
  const report = await verify(receipts);
  expect(report.verified).toBe(report.findings.length === 0);
  for (const { message } of report.findings) expect(message).toMatch(/^[^.]+\.$/);
  return report.findings.map(({ code, index }) => (index === null ? code : `${code}@${index}`));
}

/** Changes the payload of a signed receipt and keeps its signature. */
function forge(jws: string, change: (receipt: Record<string, JsonValue>) => JsonObject): string {
  const [header = '', payload = '', signature = ''] = jws.split('.');
  const receipt = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, JsonValue>;
  return [header, Buffer.from(canonicalBytes(change(receipt))).toString('base64url'), signature].join('.');
}

/** Signs any payload as a receipt, as a program with a fault could. */
async function signPayload(payload: string | Uint8Array, typ = 'expunge-receipt+json', ring = worker): Promise<string> {
  const { id, key } = ring.signingKey();
  return new CompactSign(Buffer.from(payload)).setProtectedHeader({ alg: 'EdDSA', kid: id, typ }).sign(key);
}

let chain: readonly [string, string, string, string];
beforeAll(async () => {
  chain = (await aChain()) as unknown as typeof chain;
});

describe('WF-22: an undisturbed chain', () => {
  it('is verified with the public keys alone, from text and from bytes', async () => {
    const exported = exportReceipts(chain);
    const clean = { verified: true, findings: [], receipts: 4, chain: { tenant: 'shop', requestId: REQUEST } };
    expect(await verifyReceipts(exported, files.verification)).toEqual(clean);
    expect(await verifyReceipts(Buffer.from(exported), files.verification)).toEqual(clean);
  });

  it('may be a final receipt alone, where there was no target', async () => {
    expect(await findings(await aChain({ targets: [] }))).toEqual([]);
  });

  it('is verified when the signing key was rotated in between, with both public keys', async () => {
    const next = generateKeyFiles();
    const receipts = await aChain({ lastRing: parseKeyRing(next.worker, 'next.keys.json') });
    const both = { keys: [...files.verification.keys, ...next.verification.keys] };
    expect((await verifyReceipts(exportReceipts(receipts), both)).findings).toEqual([]);
    expect(await findings(receipts)).toEqual(['FOREIGN_SIGNATURE@3', 'TRUNCATED']);
  });
});

describe('WF-22: a changed receipt', () => {
  it('is found wherever a byte is flipped, in every receipt', async () => {
    for (const [index, jws] of chain.entries()) {
      for (let at = index; at < jws.length; at += 37) {
        const bytes = Buffer.from(jws);
        bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
        const codes = await findings(chain.with(index, bytes.toString('latin1')));
        // A flip in the header may name another key or no header at all; anywhere else the signature breaks.
        const expected =
          at < jws.indexOf('.') ? /^(CHANGED|FOREIGN_SIGNATURE|UNREADABLE_RECEIPT)@/ : /^(CHANGED|UNREADABLE_RECEIPT)@/;
        expect(codes[0], `receipt ${index}, byte ${at}`).toMatch(expected);
        expect(codes[0]).toMatch(new RegExp(`@${index}$`));
        expect(codes.slice(1)).toEqual(index === chain.length - 1 ? ['TRUNCATED'] : []);
      }
    }
  });

  it('is found in the last character, whose unused bits a decoder ignores', async () => {
    const [, , , final] = chain;
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const changed = final.slice(0, -1) + alphabet.charAt(alphabet.indexOf(final.slice(-1)) ^ 1);
    expect(Buffer.from(changed.split('.')[2] ?? '', 'base64url')).toEqual(
      Buffer.from(final.split('.')[2] ?? '', 'base64url'),
    );
    expect(await findings(chain.with(3, changed))).toEqual(['CHANGED@3', 'TRUNCATED']);
  });

  it('is found when a count was altered', async () => {
    const altered = forge(chain[1], (receipt) => ({ ...receipt, handler_version: 2 }));
    expect(await findings(chain.with(1, altered))).toEqual(['CHANGED@1']);
  });

  it.each<[string, (approval: JsonObject) => JsonObject]>([
    ['approver', (approval) => ({ ...approval, approved_by: 'operator-c' })],
    ['time', (approval) => ({ ...approval, approved_at: '2025-11-29T11:00:00Z' })],
    ['digest', (approval) => ({ ...approval, inventory_digest: OTHER_DIGEST })],
  ])('is found when the %s of an approval was altered', async (_name, change) => {
    const altered = forge(chain[3], (receipt) => ({
      ...receipt,
      approvals: (receipt.approvals as JsonObject[]).map(change),
    }));
    expect(await findings(chain.with(3, altered))).toEqual(['CHANGED@3', 'TRUNCATED']);
  });
});

describe('WF-22: a receipt of somebody else', () => {
  it('is found when it is signed with another key', async () => {
    const foreign = await aChain({ ring: stranger });
    expect(await findings(chain.with(1, foreign[1] ?? ''))).toEqual(['FOREIGN_SIGNATURE@1']);
    expect(await findings(foreign)).toEqual([0, 1, 2, 3].map((at) => `FOREIGN_SIGNATURE@${at}`).concat('TRUNCATED'));
  });

  it('is found when it is signed with another key under the true key id', async () => {
    const posing = await new CompactSign(Buffer.from(chain[1].split('.')[1] ?? '', 'base64url'))
      .setProtectedHeader({ alg: 'EdDSA', kid: worker.signingKey().id, typ: 'expunge-receipt+json' })
      .sign(stranger.signingKey().key);
    expect(await findings(chain.with(1, posing))).toEqual(['CHANGED@1']);
  });

  it('is found when it is a genuine document of another kind', async () => {
    const other = await signPayload(Buffer.from(chain[1].split('.')[1] ?? '', 'base64url'), 'expunge-checkpoint+json');
    expect(await findings(chain.with(1, other))).toEqual(['UNREADABLE_RECEIPT@1']);
  });
});

describe('WF-22: a chain that is not whole', () => {
  it.each<[string, (receipts: readonly string[]) => readonly string[], string[]]>([
    ['the first was dropped', (it) => it.slice(1), ['DROPPED@0']],
    ['one in the middle was dropped', (it) => it.toSpliced(1, 1), ['DROPPED@1']],
    ['two in the middle were dropped', (it) => it.toSpliced(1, 2), ['DROPPED@1']],
    ['the last was dropped', (it) => it.slice(0, -1), ['TRUNCATED']],
    ['all but the first were dropped', (it) => it.slice(0, 1), ['TRUNCATED']],
    ['all but the final were dropped', (it) => it.slice(-1), ['DROPPED@0']],
    ['all were dropped', () => [], ['TRUNCATED']],
    ['two were swapped', (it) => [it[0], it[2], it[1], it[3]] as string[], ['REORDERED@2']],
    [
      'the final was moved to the front',
      (it) => [...it.slice(-1), ...it.slice(0, -1)],
      ['REORDERED@1', 'REORDERED@2', 'REORDERED@3'],
    ],
    ['one stands twice', (it) => it.toSpliced(2, 0, it[1] ?? ''), ['DUPLICATED@2']],
    ['one stands twice, far behind', (it) => [...it, it[0] ?? ''], ['DUPLICATED@4']],
    ['one is garbage', (it) => it.with(1, 'garbage'), ['UNREADABLE_RECEIPT@1']],
    [
      'garbage was put in the place of two',
      (it) => it.toSpliced(1, 2, 'garbage'),
      ['UNREADABLE_RECEIPT@1', 'DROPPED@2'],
    ],
    [
      'garbage at the end does not stand for one that was dropped',
      (it) => [...it.toSpliced(1, 1), 'garbage'],
      ['DROPPED@1', 'UNREADABLE_RECEIPT@3'],
    ],
  ])('is found: %s', async (_name, change, expected) => {
    expect(await findings(change(chain))).toEqual(expected);
  });

  it('says how many are missing', async () => {
    const report = await verify(chain.slice(-1));
    expect(report.findings[0]?.message).toBe('Before receipt 0, 3 of the chain are missing.');
  });

  it('is found whichever receipts are dropped, moved or repeated', async () => {
    const indexes = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 6 }).filter((it) => it.join() !== '0,1,2,3');
    await fc.assert(
      fc.asyncProperty(indexes, async (order) => {
        expect(await findings(order.map((at) => chain[at]))).not.toEqual([]);
      }),
    );
  });
});

describe('WF-22: two chains', () => {
  it('that were mixed are told apart', async () => {
    const other = await aChain({ requestId: OTHER_REQUEST });
    expect(await findings([...chain.slice(0, 2), ...other.slice(2)])).toEqual([
      'MIXED_CHAINS@2',
      'MIXED_CHAINS@3',
      'TRUNCATED',
    ]);
    expect(await findings(chain.toSpliced(1, 0, other[1] ?? ''))).toEqual(['MIXED_CHAINS@1']);
  });

  it('of two tenants are told apart', async () => {
    const other = await aChain({ tenant: 'other' });
    expect(await findings(chain.with(2, other[2] ?? ''))).toEqual(['MIXED_CHAINS@2', 'DROPPED@3']);
  });

  it('a whole chain of another request is found where the auditor says which is expected', async () => {
    const report = await verifyReceipts(exportReceipts(chain), files.verification, { requestId: OTHER_REQUEST });
    expect(report.findings.map(({ code }) => code)).toEqual([...Array<string>(4).fill('MIXED_CHAINS'), 'TRUNCATED']);
    const mixed = [...(await aChain({ requestId: OTHER_REQUEST, tenant: 'other' })), ...chain];
    const expected = await verifyReceipts(exportReceipts(mixed), files.verification, { requestId: REQUEST });
    expect(expected.findings.map(({ code, index }) => `${code}@${index}`)).toEqual(
      [0, 1, 2, 3].map((at) => `MIXED_CHAINS@${at}`),
    );
    expect(expected.chain).toEqual({ tenant: 'shop', requestId: REQUEST });
  });

  it('with one beginning: a second receipt for a place is found', async () => {
    const fork = await aChain({ target: (it) => (it.sequence === 2 ? { ...it, handler_version: 2 } : it) });
    expect(await findings(chain.toSpliced(2, 0, fork[1] ?? ''))).toEqual(['FORKED@2']);
    // Spliced: what follows names the hash of the receipt that was replaced.
    expect(await findings(chain.with(1, fork[1] ?? ''))).toEqual(['BROKEN_LINK@2']);
  });

  it('a receipt behind the final one is found', async () => {
    const last = chain[3];
    const link = { sequence: 5, previousHash: receiptHash(last) };
    const extra = await signReceipt(worker, targetReceipt(aHead({ n: 5, link }), aTargetOutcome({ target: 'late' })));
    expect(await findings([...chain, extra.jws])).toEqual(['AFTER_FINAL@4']);
  });
});

describe('genuine receipts that do not agree', () => {
  const inFirstPlace = (change: Partial<TargetReceipt['places'][number]>) => (it: TargetReceipt) =>
    it.sequence === 1 ? { ...it, places: it.places.map((place) => ({ ...place, ...change })) } : it;

  it.each<[string, ChainOptions, string[]]>([
    ['WF-20: removed is not counted minus left', { target: inFirstPlace({ removed: 6 }) }, ['WRONG_COUNT@0']],
    ['WF-20: counted was lowered', { target: inFirstPlace({ counted: 3 }) }, ['WRONG_COUNT@0']],
    [
      'WF-21: anonymized copies are called removed',
      { target: inFirstPlace({ action: 'anonymize' }) },
      ['WRONG_COUNT@0'],
    ],
    [
      'WF-21: removed copies are called anonymized as well',
      { target: inFirstPlace({ anonymized: 7 }) },
      ['WRONG_COUNT@0'],
    ],
    ['WF-19: copies are left', { target: inFirstPlace({ removed: 5, left: 2 }) }, ['COPIES_LEFT@0', 'WRONG_STATE@0']],
    [
      'a state that does not follow',
      { target: (it) => (it.sequence === 2 ? { ...it, state: 'retained' } : it) },
      ['WRONG_STATE@1'],
    ],
    [
      'copies that were deleted, called absent',
      { target: (it) => (it.sequence === 2 ? { ...it, state: 'absent' } : it) },
      ['WRONG_STATE@1'],
    ],
    [
      'work under an inventory that nobody approved',
      { target: (it) => (it.sequence === 2 ? { ...it, inventory_digest: OTHER_DIGEST } : it) },
      ['NOT_APPROVED@1'],
    ],
    [
      'a final receipt under an inventory that nobody approved',
      { final: (it) => ({ ...it, inventory_digest: OTHER_DIGEST }) },
      ['NOT_APPROVED@3'],
    ],
    [
      'a revision without an approval',
      { final: (it) => ({ ...it, approved: [...it.approved, { revision: 2, inventory_digest: OTHER_DIGEST }] }) },
      ['NOT_APPROVED@3'],
    ],
    [
      'an approval of something else',
      {
        final: (it) => ({
          ...it,
          approvals: [...it.approvals, { ...it.approvals[0]!, inventory_digest: OTHER_DIGEST }],
        }),
      },
      ['STRAY_APPROVAL@3'],
    ],
    ['another number of receipts', { final: (it) => ({ ...it, receipts: 2 }) }, ['WRONG_TOTAL@3']],
    [
      'a target that has no receipt',
      { final: (it) => ({ ...it, targets: [...it.targets, { target: 'files', resurrections: 0 }] }) },
      ['WRONG_TOTAL@3'],
    ],
    ['a target that is left out', { final: (it) => ({ ...it, targets: it.targets.slice(1) }) }, ['WRONG_TOTAL@3']],
  ])('%s', async (_name, options, expected) => {
    expect(await findings(await aChain(options))).toEqual(expected);
  });

  it('WF-7: a second revision with its own approval is in order', async () => {
    const revised = await aChain({
      target: (it) => (it.sequence === 3 ? { ...it, inventory_digest: OTHER_DIGEST } : it),
      final: (it) => ({
        ...it,
        inventory_digest: OTHER_DIGEST,
        approved: [...it.approved, { revision: 2, inventory_digest: OTHER_DIGEST }],
        approvals: [...it.approvals, { ...it.approvals[0]!, inventory_digest: OTHER_DIGEST }],
      }),
    });
    expect(await findings(revised)).toEqual([]);
  });
});

describe('signed payloads that are no receipts', () => {
  const receipt = (): Receipt =>
    targetReceipt(aHead({ link: { sequence: 2, previousHash: DIGEST }, n: 2 }), aTargetOutcome());

  it.each<[string, () => string | Uint8Array]>([
    ['an unknown field', () => canonicalBytes({ ...receipt(), email: 'x' })],
    ['no JSON', () => 'x'],
    ['null', () => 'null'],
    ['no UTF-8', () => Buffer.from([0xff, 0xfe])],
    ['not canonical', () => JSON.stringify(receipt(), null, 1)],
    [
      'a key that stands twice',
      () => Buffer.from(canonicalBytes(receipt())).toString().replace(/}$/, ',"tenant":"shop"}'),
    ],
    ['a byte order mark', () => `\ufeff${Buffer.from(canonicalBytes(receipt())).toString()}`],
    ['nesting without end', () => '['.repeat(50_000) + ']'.repeat(50_000)],
    ['a version that is none', () => canonicalBytes({ ...receipt(), format_version: '2' })],
  ])('are unreadable: %s', async (_name, payload) => {
    expect(await findings(chain.with(1, await signPayload(payload())))).toEqual(['UNREADABLE_RECEIPT@1']);
  });

  it('ask for a newer program where their form is newer', async () => {
    const newer = await signPayload(canonicalBytes({ ...receipt(), format_version: 2, quantum: true }));
    expect(await findings(chain.with(1, newer))).toEqual(['UNSUPPORTED_VERSION@1']);
  });
});

describe('garbage', () => {
  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['a number', 7],
    ['an empty text', ''],
    ['no JSON', '{'],
    ['another format', '{"format":"x","version":1,"receipts":[]}'],
    ['another version', '{"format":"expunge-receipts","version":2,"receipts":[]}'],
    ['a field besides', '{"format":"expunge-receipts","version":1,"receipts":[],"note":1}'],
    ['no list', '{"format":"expunge-receipts","version":1,"receipts":{}}'],
    ['no UTF-8', Buffer.from([0xff])],
    ['nesting without end', '['.repeat(1_000_000)],
    [
      'more receipts than an export may hold',
      JSON.stringify({ format: 'expunge-receipts', version: 1, receipts: Array(MAX_EXPORTED_RECEIPTS + 1).fill('') }),
    ],
  ])('is an unreadable export: %s', async (_name, exported) => {
    const report = await verifyReceipts(exported, files.verification);
    expect(report).toMatchObject({ verified: false, receipts: 0, chain: null });
    expect(report.findings.map(({ code }) => code)).toEqual(['UNREADABLE_EXPORT']);
  });

  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['no keys', { keys: [] }],
    ['a private key', { keys: files.worker.signing.keys }],
    [
      'an accessor that throws',
      Object.defineProperty({}, 'keys', {
        get: () => {
          throw new Error('no');
        },
        enumerable: true,
      }),
    ],
  ])('are unreadable keys: %s', async (_name, jwks) => {
    const report = await verifyReceipts(exportReceipts(chain), jwks);
    expect(report.findings.map(({ code }) => code)).toEqual(['UNREADABLE_KEYS']);
  });

  it('among the receipts is named and never throws', async () => {
    const anything = fc.oneof(fc.jsonValue(), fc.string({ unit: 'binary' }), fc.constantFrom(...chain));
    await fc.assert(
      fc.asyncProperty(fc.array(anything, { maxLength: 6 }), async (entries) => {
        const report = await verify(entries);
        expect(report.receipts).toBe(entries.length);
        expect(report.verified).toBe(JSON.stringify(entries) === JSON.stringify(chain));
      }),
    );
  });

  it('inside a receipt is named and never throws', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary' }), async (payload) => {
        expect(await findings(chain.with(1, await signPayload(payload)))).toEqual(['UNREADABLE_RECEIPT@1']);
      }),
    );
  });

  it.each([400, 2_000])('is a receipt over the bound, though it is signed and well-formed: %i places', async (many) => {
    const small = targetReceipt(
      aHead({ link: { sequence: 2, previousHash: receiptHash(chain[0]) }, n: 2 }),
      aTargetOutcome(),
    );
    const places = Array.from({ length: many }, (_, at) => ({ ...small.places[0]!, place: `place ${at}` }));
    const large = await signPayload(canonicalBytes({ ...small, places }));
    expect(await findings(chain.with(1, large))).toContain('UNREADABLE_RECEIPT@1');
  });
});
