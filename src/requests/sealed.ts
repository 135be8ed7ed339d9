/** What is sealed on a request: identifiers, locators, the digest's salt. Stored and destroyed here, opened elsewhere. */
import { sql } from 'kysely';
import { type Queries, recordset, uuids } from '../storage/database.js';

export interface SealedPart {
  readonly requestId: string;
  readonly part: string;
  readonly keyId: string;
  readonly sealed: string;
}

/** Writes parts; one that is there already is replaced. */
export async function saveSealed({ db, t }: Queries, parts: readonly SealedPart[]): Promise<void> {
  if (parts.length === 0) return;
  await sql`
    INSERT INTO ${t.sealed} (request_id, part, key_id, sealed)
    SELECT x."requestId", x.part, x."keyId", x.sealed
      FROM jsonb_to_recordset(${recordset(parts.map((part) => ({ ...part })))})
           AS x ("requestId" uuid, part text, "keyId" text, sealed text)
     ORDER BY 1, 2
    ON CONFLICT (request_id, part) DO UPDATE SET key_id = excluded.key_id, sealed = excluded.sealed`.execute(db);
}

/** Every part of the requests. */
export async function readSealed({ db, t }: Queries, requestIds: readonly string[]): Promise<readonly SealedPart[]> {
  const { rows } = await sql<SealedPart>`
    SELECT request_id AS "requestId", part, key_id AS "keyId", sealed
      FROM ${t.sealed} WHERE request_id = ANY (${uuids(requestIds)})`.execute(db);
  return rows;
}

/** What a request leaves behind at its end (WF-3, WF-5): no sealed part, no operator's free text. */
export async function destroySealed({ db, t }: Queries, requestIds: readonly string[]): Promise<void> {
  await sql`
    WITH destroyed AS (DELETE FROM ${t.sealed} WHERE request_id = ANY (${uuids(requestIds)}))
    UPDATE ${t.orders} SET reason = NULL WHERE request_id = ANY (${uuids(requestIds)})`.execute(db);
}

/** Takes the intents out of the stages of these names. */
export async function forgetIntents(
  { db, t }: Queries,
  requestIds: readonly string[],
  stages: readonly string[],
): Promise<void> {
  await sql`
    UPDATE ${t.stages} SET metadata_json = metadata_json - 'intent'
     WHERE request_id = ANY (${uuids(requestIds)})
       AND stage = ANY (ARRAY(SELECT jsonb_array_elements_text(${JSON.stringify(stages)}::text::jsonb)))`.execute(db);
}

/** Swaps references for what they are replaced by at the end; null leaves nothing that leads back. */
export async function replaceReferences(
  { db, t }: Queries,
  replacements: readonly { readonly requestId: string; readonly reference: string | null }[],
): Promise<void> {
  if (replacements.length === 0) return;
  await sql`
    UPDATE ${t.requests} r SET subject_reference = x.reference
      FROM jsonb_to_recordset(${recordset(replacements.map((item) => ({ ...item })))}) AS x ("requestId" uuid, reference text)
     WHERE r.id = x."requestId"`.execute(db);
}
