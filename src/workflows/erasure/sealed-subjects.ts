/** Sealing and opening what a request knows of its subject. Opened only inside a handler, and never kept (WF-3). */
import { z } from 'zod';
import { open, type Sealer } from '../../keys/seal.js';
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
const identifiersSchema = z.strictObject({ key: z.string(), identifiers: z.array(identifierSchema), salt: z.string() });
const locatorsSchema = z.record(z.string(), z.array(z.string()));

const IDENTIFIERS = 'identifiers';
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

/** What every erasure begins with: the identifiers, and the salt that binds its inventory to them, in one part. */
export function sealSubject(sealer: Sealer, requestId: string, subject: Subject, salt: string): SealedPart[] {
  const identifiers = subject.identifiers.map(({ name, value, normaliser, normaliserVersion }) => ({
    name,
    value,
    normaliser,
    normaliserVersion,
  }));
  return [sealPart(sealer, requestId, IDENTIFIERS, { key: subject.key.name, identifiers, salt })];
}

export function sealLocators(sealer: Sealer, requestId: string, source: string, locators: Locators): SealedPart {
  return sealPart(sealer, requestId, `${LOCATORS}${source}`, locators);
}

function sealPart(sealer: Sealer, requestId: string, part: string, value: JsonValue): SealedPart {
  return { requestId, part, ...sealer.seal(part, requestId, value) };
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
  const parts = new Map<string, SealedPart[]>(requestIds.map((id) => [id, []]));
  for (const part of await readSealed(database, requestIds)) parts.get(part.requestId)?.push(part);
  const opened = [...parts].map(async ([id, own]) => {
    return [id, await openSubject(ring, own).catch((error: unknown) => error as Error)] as const;
  });
  return new Map(await Promise.all(opened));
}

async function openSubject(ring: KeyRing, parts: readonly SealedPart[]): Promise<OpenedSubject> {
  const values = new Map<string, JsonValue>();
  for (const { requestId, part, sealed } of parts) values.set(part, await open(ring, part, requestId, sealed));
  const { key: keyName, identifiers, salt } = identifiersSchema.parse(values.get(IDENTIFIERS));
  const key = identifiers.find(({ name }) => name === keyName);
  if (key === undefined) throw new Error('The sealed identifiers do not hold their key.');
  const resolved = [...values].flatMap(([part, value]) =>
    part.startsWith(LOCATORS) ? [[part.slice(LOCATORS.length), locatorsSchema.parse(value)] as const] : [],
  );
  return {
    key,
    identifiers: Object.fromEntries(identifiers.map(({ name, value }) => [name, value])),
    salt,
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
