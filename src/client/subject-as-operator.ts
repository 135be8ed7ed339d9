/** Operators' ids are kept for ever; a subject's identifiers are not. So the one must never be the other (WF-2). */
import type { KeyRing } from '../keys/key-ring.js';
import { isExpungeError } from '../observe/expunge-error.js';
import { RequestRefusedError } from '../requests/request-error.js';
import { type IdentifierDeclaration, normaliseIdentifier } from '../subject/identifier.js';
import { type Identified, isIdentifierOf } from '../subject/is-identifier.js';
import { parseReference, referencesToWrite, sameReference, subjectReference } from '../subject/reference.js';

/** @throws RequestRefusedError INVALID_OPERATOR where the name is one of the subject's identifiers. */
export function refuseSubjectAsOperator(name: string, subject: Identified): void {
  if (isIdentifierOf(name, subject)) throw isTheSubject(null);
}

/** @throws RequestRefusedError INVALID_ORDER where the code is one of the subject's identifiers. */
export function refuseSubjectAsReason(code: string, subject: Identified): void {
  if (!isIdentifierOf(code, subject)) return;
  throw new RequestRefusedError(
    'INVALID_ORDER',
    'The reason code given is an identifier of the subject, which would stay in the record: give a code such as MAIL_REQUEST.',
  );
}

/** What a submitted request can be compared with: its reference, which is of the subject's key alone. */
export interface SubjectKeys {
  readonly ring: KeyRing;
  readonly tenant: string;
  /** The name of the identifier that names the subject, and its declaration. */
  readonly key: string;
  readonly declaration: IdentifierDeclaration;
}

/**
 * Whether a name is the key of the subject whom a reference stands for: as it was typed, and in the letters that identifiers
 * are mostly written in. False where the ring lacks the reference's key, and of a receipt token: then nobody can tell.
 */
export function isSubjectKey(name: string, reference: string, keys: SubjectKeys): boolean {
  if (!isReference(reference)) return false;
  const { keyId } = parseReference(reference);
  return spellingsOf(name).some((spelling) => {
    try {
      const identifier = normaliseIdentifier(keys.key, keys.declaration, spelling);
      return sameReference(subjectReference(keys.ring, { tenant: keys.tenant, identifier }, keyId), reference);
    } catch (error) {
      if (isExpungeError(error, 'INVALID_SUBJECT') || isExpungeError(error, 'MISSING_KEY')) return false;
      throw error;
    }
  });
}

/** Every reference that somebody of this name would have as a subject, under the keys that references are written with. */
export function referencesOf(name: string, keys: SubjectKeys): readonly string[] {
  return spellingsOf(name).flatMap((spelling) => {
    try {
      const identifier = normaliseIdentifier(keys.key, keys.declaration, spelling);
      return referencesToWrite(keys.ring, { tenant: keys.tenant, identifier });
    } catch (error) {
      if (isExpungeError(error, 'INVALID_SUBJECT') || isExpungeError(error, 'MISSING_KEY')) return [];
      throw error;
    }
  });
}

export function isTheSubject(requestId: string | null): RequestRefusedError {
  const which = requestId === null ? 'the subject' : `the subject of request ${requestId}`;
  return new RequestRefusedError(
    'INVALID_OPERATOR',
    `The operator given is an identifier of ${which}, which would stay in the record: give an operator's own id, or self where the person asked.`,
    requestId,
  );
}

/** Surrounding space may be the identifier's own, where every character counts. */
function spellingsOf(name: string): readonly string[] {
  const plain = [name, name.normalize('NFC'), name.trim(), name.normalize('NFC').trim()];
  return [...new Set(plain.flatMap((text) => [text, text.toLowerCase(), text.toUpperCase()]))];
}

function isReference(text: string): boolean {
  try {
    parseReference(text);
    return true;
  } catch {
    return false;
  }
}
