/**
 * Normalisers say which spellings are the same identifier (contract WF-4).
 *
 * A reference is made from the normalised value and names the normaliser and its version. A rule is therefore never
 * changed: a better one is a new version beside the old, because the references in the registry were made by the old.
 */
import type { Normaliser } from './normaliser.js';
import { normaliseEmail } from './normalise-email.js';

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
