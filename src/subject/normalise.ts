/**
 * Normalisers say which spellings are the same identifier (contract WF-4).
 *
 * A reference is made from the normalised value and names the normaliser and its version. A rule is therefore never
 * changed: a better one is a new version beside the old, because the references in the registry were made by the old.
 */
import { normaliseEmail } from './normalise-email.js';

/** The value in its one spelling, or what makes it unreadable, as the end of the sentence "The identifier x …". */
export type NormaliseResult = { readonly value: string } | { readonly unreadable: string };

/** One version of one rule. Pure, the same on every machine and runtime, and idempotent. */
export interface Normaliser {
  readonly name: 'exact' | 'email' | 'email-folded';
  readonly version: number;
  /** @param value - well-formed Unicode of bounded length. */
  normalise(value: string): NormaliseResult;
}

/** Every character counts, surrounding space included: what an internal id needs. */
const exact: Normaliser = { name: 'exact', version: 1, normalise: (value) => ({ value }) };

const email: Normaliser = {
  name: 'email',
  version: 1,
  normalise: (value) => normaliseEmail(value, { foldLocalPart: false }),
};

/** A rule of its own, not an option of `email`: the two give one spelling different values. */
const emailFolded: Normaliser = {
  name: 'email-folded',
  version: 1,
  normalise: (value) => normaliseEmail(value, { foldLocalPart: true }),
};

/** The rule that a declaration asks for, in its present version. */
export function normaliserOf(declaration: {
  readonly normalise?: 'exact' | 'email' | undefined;
  readonly foldLocalPart?: boolean | undefined;
}): Normaliser {
  if (declaration.normalise !== 'email') return exact;
  return declaration.foldLocalPart === true ? emailFolded : email;
}
