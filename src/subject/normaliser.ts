/** The value in its one spelling, or what makes it unreadable, as the end of the sentence "The identifier x …". */
export type NormaliseResult = { readonly value: string } | { readonly unreadable: string };

/** One version of one rule. Pure, the same on every machine and runtime, and idempotent. */
export interface Normaliser {
  readonly name: 'exact' | 'email' | 'email-folded';
  readonly version: number;
  /** @param value - well-formed Unicode of bounded length. */
  normalise(value: string): NormaliseResult;
}
