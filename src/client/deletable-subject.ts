/** Reads whom a deletion is about, and what stands against it before anything is counted. */
import type { ResolvedConfig } from '../config/resolved-config.js';
import { isProtected } from '../config/protected.js';
import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';
import { InvalidSubjectError } from '../subject/invalid-subject-error.js';
import { identifierValues, parseSubject, type Subject } from '../subject/subject.js';

/** A subject that the configuration protects (WF-9). */
export class ProtectedSubjectError extends ExpungeError {
  readonly code = 'PROTECTED_SUBJECT';
  readonly outcome: ErrorOutcome = 'refused';
}

export type Identifiers = Readonly<Record<string, string>>;

/** @throws InvalidSubjectError */
export function readSubject({ subject }: ResolvedConfig, identifiers: Identifiers): Subject {
  if (subject === null) {
    throw new InvalidSubjectError(
      'No subject is declared: erasures need an expunge.config.ts, which expunge init writes.',
    );
  }
  return parseSubject(subject.identifiers, subject.key, identifiers);
}

/** @throws ProtectedSubjectError */
export function requireUnprotected(config: ResolvedConfig, subject: Subject): void {
  if (!isProtected(config, subject)) return;
  throw new ProtectedSubjectError(
    'This subject is protected by the configuration and is never deleted: take it out of protected if that is wrong.',
  );
}

/** @throws InvalidSubjectError where a target needs an identifier that was not given. */
export function requireWhatTargetsNeed({ targets }: ResolvedConfig, subject: Subject): void {
  const given = identifierValues(subject);
  for (const [name, { identifiers: needed }] of Object.entries(targets)) {
    const missing = needed.find((identifier) => !Object.hasOwn(given, identifier));
    if (missing !== undefined) {
      throw new InvalidSubjectError(
        `Target ${name} finds people by ${missing}, which was not given: give it with --subject ${missing}=VALUE.`,
      );
    }
  }
}
