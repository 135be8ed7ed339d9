import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normaliserOf } from './normalise.js';

const exact = normaliserOf({});
const email = normaliserOf({ normalise: 'email' });
const folded = normaliserOf({ normalise: 'email', foldLocalPart: true });

const NFC_E = '\u00e9';
const NFD_E = 'e\u0301';
const DOTTED_I = '\u0130';
const SHARP_S = '\u00df';
const CAPITAL_SHARP_S = '\u1e9e';

describe('WF-4: the vectors of e-mail addresses, version 1', () => {
  it.each<[string, string, string]>([
    ['surrounding space', '  jane@example.com\t\r\n', 'jane@example.com'],
    ['surrounding no-break and ideographic space', '\u00a0jane@example.com\u3000', 'jane@example.com'],
    ['an upper-case domain', 'jane@EXAMPLE.Com', 'jane@example.com'],
    ['an upper-case local part, kept', 'Jane.DOE@example.com', 'Jane.DOE@example.com'],
    ['NFC in the local part', `andr${NFC_E}@example.com`, `andr${NFC_E}@example.com`],
    ['NFD in the local part', `andr${NFD_E}@example.com`, `andr${NFC_E}@example.com`],
    ['NFD in the domain', `x@caf${NFD_E}.fr`, `x@caf${NFC_E}.fr`],
    ['NFD and upper case in the domain', 'x@CAFE\u0301.FR', `x@caf${NFC_E}.fr`],
    ['İ in the domain', `x@${DOTTED_I}STANBUL.com`, 'x@i\u0307stanbul.com'],
    ['İ in NFD in the domain', 'x@I\u0307STANBUL.com', 'x@i\u0307stanbul.com'],
    ['I in the domain, which is not İ', 'x@ISTANBUL.com', 'x@istanbul.com'],
    ['ı in the domain, which is not i', 'x@\u0131stanbul.com', 'x@\u0131stanbul.com'],
    ['İ in the local part, kept', `${DOTTED_I}x@a.com`, `${DOTTED_I}x@a.com`],
    ['ß in the domain', `x@stra${SHARP_S}e.de`, `x@stra${SHARP_S}e.de`],
    ['ẞ in the domain', `x@STRA${CAPITAL_SHARP_S}E.DE`, `x@stra${SHARP_S}e.de`],
    ['ss in the domain, which is not ß', 'x@STRASSE.DE', 'x@strasse.de'],
    ['ẞ in the local part, kept', `${CAPITAL_SHARP_S}@a.de`, `${CAPITAL_SHARP_S}@a.de`],
    ['Σ at the end of a label', 'x@\u039f\u0394\u039f\u03a3.GR', 'x@\u03bf\u03b4\u03bf\u03c3.gr'],
    ['Σ at the end of the domain, the same', 'x@\u039f\u0394\u039f\u03a3', 'x@\u03bf\u03b4\u03bf\u03c3'],
    ['a letter that is composed in lower case only', 'x@H\u0331.com', 'x@\u1e96.com'],
    ['an underscore, which is no wildcard', 'a_b@x', 'a_b@x'],
    ['the letter that the underscore would match', 'axb@x', 'axb@x'],
    ['a percent sign, which is no wildcard', 'a%@x', 'a%@x'],
    ['a plus tag and dots, kept', 'j.a.n.e+shop@gmail.com', 'j.a.n.e+shop@gmail.com'],
    ['a quoted @', '"a@B"@EXAMPLE.com', '"a@B"@example.com'],
    ['an ASCII form of an international domain', 'x@XN--BCHER-KVA.de', 'x@xn--bcher-kva.de'],
    ['full-width letters, kept apart', 'x@\uff21.com', 'x@\uff41.com'],
  ])('%s', (_name, given, expected) => {
    expect(email.normalise(given)).toEqual({ value: expected });
  });

  it.each<[string, string, string]>([
    ['an upper-case local part', 'Jane.DOE@EXAMPLE.com', 'jane.doe@example.com'],
    ['NFD and upper case', 'ANDRE\u0301@x.fr', `andr${NFC_E}@x.fr`],
    ['İ', `${DOTTED_I}@x.com`, 'i\u0307@x.com'],
    ['ẞ', `${CAPITAL_SHARP_S}@x.de`, `${SHARP_S}@x.de`],
  ])('foldLocalPart folds %s', (_name, given, expected) => {
    expect(folded.normalise(given)).toEqual({ value: expected });
  });

  it.each<[string, string]>([
    ['no @', 'jane'],
    ['an empty text', ''],
    ['nothing before the @', ' @example.com'],
    ['nothing after the @', 'jane@ '],
    ['a space in the domain', 'jane@exam ple.com'],
    ['a line break in the domain', 'jane@example.com\nx'],
  ])('%s is unreadable', (_name, given) => {
    expect(email.normalise(given)).toHaveProperty('unreadable');
  });
});

describe('WF-4: the vectors of exact identifiers, version 1', () => {
  it.each([' 42', '42 ', 'A', 'a', NFC_E, NFD_E, DOTTED_I, SHARP_S, CAPITAL_SHARP_S, 'a_b@x', 'axb@x'])(
    '%j is kept',
    (given) => {
      expect(exact.normalise(given)).toEqual({ value: given });
    },
  );
});

describe('every normaliser', () => {
  // What moves under case mapping, composition and trimming, mixed with everything else.
  const awkward = fc.constantFrom(...'aZéİiıẞßΣςσ\u0301\u0307\u0345\u212a\u1fb3ǅﬀ @._\u00a0\ufeff');
  const anyCharacter = fc.string({ unit: 'binary', minLength: 1, maxLength: 1 });
  const text = fc.string({ unit: fc.oneof({ weight: 3, arbitrary: awkward }, anyCharacter), maxLength: 40 });

  it.each([exact, email, folded])('WF-4: $name is idempotent', (normaliser) => {
    const address = fc.tuple(text, text).map(([local, domain]) => `${local}@${domain}`);
    let read = 0;
    fc.assert(
      fc.property(address, (given) => {
        const once = normaliser.normalise(given);
        if ('unreadable' in once) return;
        read += 1;
        expect(normaliser.normalise(once.value)).toEqual(once);
      }),
      { numRuns: 2_000 },
    );
    expect(read).toBeGreaterThan(100);
  });

  it('WF-4: carries a name and a version', () => {
    expect([exact, email, folded].map(({ name, version }) => `${name}/${version}`)).toEqual([
      'exact/1',
      'email/1',
      'email-folded/1',
    ]);
  });
});
