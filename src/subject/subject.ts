/** Who is to be deleted: the checked and normalised identifiers of one subject. */
import { normaliseIdentifier, type IdentifierDeclarations, type NormalisedIdentifier } from './identifier.js';
import { InvalidSubjectError } from './invalid-subject-error.js';

/** One subject, known by at least its key. */
export interface Subject {
  /** The identifier that names the subject to the guard: `subject.key` of the configuration (contract REG-14). */
  readonly key: NormalisedIdentifier;
  /** All identifiers that were given, the key included, in the order in which they are declared. */
  readonly identifiers: readonly NormalisedIdentifier[];
}

/**
 * Reads a subject as users give it: `{ customerId: '42', email: 'jane@example.com' }`.
 *
 * @param declarations - the identifiers of the configuration.
 * @param subjectKey - which of them names the subject; it has to be given.
 * @throws InvalidSubjectError where an identifier is not declared, the key is missing, or a value is refused by
 *   `normaliseIdentifier`. Undeclared names are not repeated: whoever swapped name and value put an identifier there.
 */
export function parseSubject(
  declarations: IdentifierDeclarations,
  subjectKey: string,
  input: Readonly<Record<string, unknown>>,
): Subject {
  const declared = Object.keys(declarations);
  if (Object.keys(input).some((name) => !Object.hasOwn(declarations, name))) {
    throw new InvalidSubjectError(
      `A subject was given by an identifier that is not declared; declared are ${declared.join(', ')}.`,
    );
  }
  const identifiers: NormalisedIdentifier[] = [];
  for (const [name, declaration] of Object.entries(declarations)) {
    // Absent, or undefined as optional properties are; null is a mistake and is refused with the rest.
    if (!Object.hasOwn(input, name) || input[name] === undefined) continue;
    identifiers.push(normaliseIdentifier(name, declaration, input[name]));
  }
  const key = identifiers.find((identifier) => identifier.name === subjectKey);
  if (key === undefined) {
    throw new InvalidSubjectError(
      `A subject was given without ${subjectKey}, which names it; every deletion has to give it.`,
    );
  }
  return { key, identifiers };
}

/** The normalised values by name: what targets find a subject by, and what is sealed on a request. */
export function identifierValues(subject: Subject): Readonly<Record<string, string>> {
  return Object.fromEntries(subject.identifiers.map(({ name, value }) => [name, value]));
}
