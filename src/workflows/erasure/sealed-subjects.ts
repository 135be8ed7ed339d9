/** Sealing and opening what a request knows of its subject. Opened only inside a handler, and never kept (WF-3). */
import { z } from 'zod';
import { open, seal } from '../../keys/seal.js';
import type { KeyRing } from '../../keys/key-ring.js';
import { readSealed, type SealedPart } from '../../requests/sealed.js';
import type { Database } from '../../storage/database.js';
import type { JsonValue } from '../../storage/json.js';
import type { NormalisedIdentifier } from '../../subject/identifier.js';
import type { Subject } from '../../subject/subject.js';

const identifierSchema = z.strictObject({
  name: z.string(),
  value: z.string(),
  normaliser: z.string(),
  normaliserVersion: z.number(),
});
const identifiersSchema = z.strictObject({ key: z.string(), identifiers: z.array(identifierSchema) });
const locatorsSchema = z.record(z.string(), z.array(z.string()));

const IDENTIFIERS = 'identifiers';
const SALT = 'salt';
const LOCATORS = 'locators:';

/** Values that one target resolved for others, by the name under which they were asked for. */
export type Locators = Readonly<Record<string, readonly string[]>>;

/** What is known of one subject while its handler runs. */
export interface OpenedSubject {
  readonly key: NormalisedIdentifier;
  readonly identifiers: Readonly<Record<string, string>>;
  readonly salt: string;
  /** What each target resolved for the others before anything of it was deleted, by that target's name. */
  readonly resolved: ReadonlyMap<string, Locators>;
}

/** The parts that every erasure begins with. @throws MissingKeyError */
export async function sealSubject(
  ring: KeyRing,
  requestId: string,
  subject: Subject,
  salt: string,
): Promise<SealedPart[]> {
  const identifiers = subject.identifiers.map(({ name, value, normaliser, normaliserVersion }) => ({
    name,
    value,
    normaliser,
    normaliserVersion,
  }));
  return [
    await sealPart(ring, requestId, IDENTIFIERS, { key: subject.key.name, identifiers }),
    await sealPart(ring, requestId, SALT, salt),
  ];
}

export function sealLocators(
  ring: KeyRing,
  requestId: string,
  source: string,
  locators: Locators,
): Promise<SealedPart> {
  return sealPart(ring, requestId, `${LOCATORS}${source}`, locators);
}

async function sealPart(ring: KeyRing, requestId: string, part: string, value: JsonValue): Promise<SealedPart> {
  return { requestId, part, ...(await seal(ring, part, requestId, value)) };
}

/**
 * Opens the subjects of many requests. One that cannot be opened has its error: a missing key is loud and blocks, and is
 * never taken for "nothing there".
 */
export async function openSubjects(
  database: Database,
  ring: KeyRing,
  requestIds: readonly string[],
): Promise<ReadonlyMap<string, OpenedSubject | Error>> {
  const parts = await readSealed(database, requestIds);
  const opened = requestIds.map(async (id) => {
    const own = parts.filter(({ requestId }) => requestId === id);
    return [id, await openSubject(ring, own).catch((error: unknown) => error as Error)] as const;
  });
  return new Map(await Promise.all(opened));
}

async function openSubject(ring: KeyRing, parts: readonly SealedPart[]): Promise<OpenedSubject> {
  const values = new Map<string, JsonValue>();
  for (const { requestId, part, sealed } of parts) values.set(part, await open(ring, part, requestId, sealed));
  const { key: keyName, identifiers } = identifiersSchema.parse(values.get(IDENTIFIERS));
  const key = identifiers.find(({ name }) => name === keyName);
  if (key === undefined) throw new Error('The sealed identifiers do not hold their key.');
  const resolved = [...values].flatMap(([part, value]) =>
    part.startsWith(LOCATORS) ? [[part.slice(LOCATORS.length), locatorsSchema.parse(value)] as const] : [],
  );
  return {
    key,
    identifiers: Object.fromEntries(identifiers.map(({ name, value }) => [name, value])),
    salt: z.string().parse(values.get(SALT)),
    resolved: new Map(resolved),
  };
}

/**
 * Whether the ring can open what is sealed on a request, without opening it.
 * @throws MissingKeyError that names the key.
 */
export async function requireOpeningKeys(database: Database, ring: () => KeyRing, requestId: string): Promise<void> {
  for (const { keyId } of await readSealed(database, [requestId])) ring().openingKey(keyId);
}
