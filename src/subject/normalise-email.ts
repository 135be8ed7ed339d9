import type { NormaliseResult } from './normaliser.js';

/**
 * E-mail addresses, version 1: surrounding space is dropped, the whole is composed (NFC), the domain is in lower case, and
 * so is the local part where `foldLocalPart` says so.
 *
 * What it does not do, on purpose: no dots or `+tags` are dropped and no compatibility forms are unified (NFKC), because two
 * people may own the two spellings. The two forms of an international domain (`xn--…` and Unicode) stay two values: mapping
 * one to the other depends on tables that change with the runtime, and a version has to give the same answer for ever.
 */
export function normaliseEmail(value: string, options: { readonly foldLocalPart: boolean }): NormaliseResult {
  const address = value.trim().normalize('NFC');
  // The last one: a quoted local part may hold others, a domain cannot.
  const at = address.lastIndexOf('@');
  const local = address.slice(0, Math.max(at, 0));
  const domain = address.slice(at + 1);
  if (at === -1) return { unreadable: 'is no e-mail address: it has no @' };
  if (local.trim() === '') return { unreadable: 'is no e-mail address: nothing stands before the @' };
  if (domain === '') return { unreadable: 'is no e-mail address: nothing stands after the @' };
  if (/\s/u.test(domain)) return { unreadable: 'is no e-mail address: its domain holds a space' };
  return { value: `${options.foldLocalPart ? lowerCase(local) : local}@${lowerCase(domain)}` };
}

/**
 * Lower case, one code point after the other: the whole-string rule writes `Σ` differently at the end of a word, so that a
 * label's form would depend on what follows it. It is the language-neutral mapping on every machine: `İ` becomes `i` with
 * a combining dot, never the plain `i` that another domain may have, and `ẞ` becomes `ß`, never `ss`. Composed again at
 * the end, because a lower-case letter may have a composed form that its upper-case one lacks.
 */
function lowerCase(text: string): string {
  return Array.from(text, (character) => character.toLowerCase())
    .join('')
    .normalize('NFC');
}
