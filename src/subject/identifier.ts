/** What systems know a subject by: how an identifier is declared, and what a checked and normalised one looks like. */
import { z } from 'zod';
import { InvalidSubjectError } from './invalid-subject-error.js';
import { normaliserOf } from './normalise.js';

/** The longest identifier, in bytes of UTF-8, before and after it is normalised. */
export const MAX_IDENTIFIER_BYTES = 1_024;

/** A name that an identifier can be declared under: a letter, then letters, digits and underscores, 63 at most. */
export const identifierNameSchema = z.string().regex(/^[A-Za-z][A-Za-z0-9_]{0,62}$/);

/** Checks one entry of `subject.identifiers` in the configuration. */
export const identifierDeclarationSchema = z
  .strictObject({
    opaque: z.literal(true).optional(),
    normalise: z.enum(['exact', 'email']).optional(),
    foldLocalPart: z.boolean().optional(),
    type: z.literal('string').optional(),
  })
  .refine((it) => it.foldLocalPart === undefined || it.normalise === 'email', {
    path: ['foldLocalPart'],
    message: "nothing where normalise is not 'email'",
  })
  .refine((it) => it.opaque !== true || it.normalise !== 'email', {
    path: ['opaque'],
    message: 'nothing for an e-mail address, which tells who it is',
  });

/** How one identifier is declared. */
export interface IdentifierDeclaration {
  /** A random internal id that tells nothing about a person, and may stand in a fence as it is. */
  readonly opaque?: true | undefined;
  /** Which spellings are the same identifier: `exact` (the default) or `email`. */
  readonly normalise?: 'exact' | 'email' | undefined;
  /** With `email`: the part before the @ is folded to lower case too. Off by default: mail servers may tell it apart. */
  readonly foldLocalPart?: boolean | undefined;
  readonly type?: 'string' | undefined;
}

/** All identifiers of a configuration, by name. */
export type IdentifierDeclarations = Readonly<Record<string, IdentifierDeclaration>>;

/** One checked identifier of one subject, with the rule that its value was normalised by. */
export interface NormalisedIdentifier {
  /** Its declared name, such as `customerId`. */
  readonly name: string;
  readonly value: string;
  readonly normaliser: string;
  readonly normaliserVersion: number;
}

/**
 * Checks and normalises one value.
 *
 * @param name - the identifier's declared name.
 * @throws InvalidSubjectError where the value is empty or blank, longer than {@link MAX_IDENTIFIER_BYTES}, holds a control
 *   character or a lone surrogate, or is nothing that the normaliser can read. The value is never part of the message.
 */
export function normaliseIdentifier(
  name: string,
  declaration: IdentifierDeclaration,
  value: unknown,
): NormalisedIdentifier {
  if (typeof value !== 'string') throw invalid(name, 'is not a string');
  if (!value.isWellFormed()) throw invalid(name, 'holds a lone surrogate');
  // Before the normaliser runs, to bound its work; and after it, because NFC can lengthen a text.
  assertLength(name, value);

  const normaliser = normaliserOf(declaration);
  const result = normaliser.normalise(value);
  if ('unreadable' in result) throw invalid(name, result.unreadable);

  assertLength(name, result.value);
  if (result.value.trim() === '') throw invalid(name, 'is empty');
  if (/\p{Cc}/u.test(result.value)) throw invalid(name, 'holds a control character');
  return { name, value: result.value, normaliser: normaliser.name, normaliserVersion: normaliser.version };
}

function assertLength(name: string, value: string): void {
  if (Buffer.byteLength(value, 'utf8') > MAX_IDENTIFIER_BYTES) {
    throw invalid(name, `is longer than ${MAX_IDENTIFIER_BYTES} bytes`);
  }
}

function invalid(name: string, what: string): InvalidSubjectError {
  return new InvalidSubjectError(
    `The identifier ${name} ${what}; give the value that the systems know the subject by.`,
  );
}
