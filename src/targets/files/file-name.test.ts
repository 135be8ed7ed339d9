import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fileNameOf, type Encoding } from './file-name.js';

const encodings: readonly Encoding[] = ['verbatim', 'uri'];
/** Text with whatever may be trouble: slashes, dots, NUL, percent signs, lone surrogates. */
const value = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.string({
    unit: fc.constantFrom('.', '/', '\\', '\0', '%', '2', 'F', 'é', '\ud800', '~', ' ', 'a', 'A'),
    maxLength: 8,
  }),
);
const around = fc.constantFrom(['', ''], ['inv-', ''], ['', '.pdf'], ['.', '.'], ['%', '']);

describe('fileNameOf', () => {
  it('WF-14: gives two values two names, or none', () => {
    fc.assert(
      fc.property(
        value,
        value,
        around,
        fc.constantFrom(...encodings),
        (one, other, [before = '', after = ''], encode) => {
          const [first, second] = [fileNameOf(before, one, after, encode), fileNameOf(before, other, after, encode)];
          if (one !== other && first !== null && second !== null) expect(first.equals(second)).toBe(false);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('gives a value one name of a directory, that leads nowhere else', () => {
    fc.assert(
      fc.property(value, around, fc.constantFrom(...encodings), (text, [before = '', after = ''], encode) => {
        const name = fileNameOf(before, text, after, encode)?.toString('utf8');
        if (name === undefined) return;
        expect(name).not.toMatch(/[/\0]/);
        expect(['', '.', '..']).not.toContain(name);
        expect(Buffer.byteLength(name)).toBeLessThanOrEqual(255);
      }),
      { numRuns: 2000 },
    );
  });

  it.each([
    ['', 'an empty value'],
    ['.', 'this directory'],
    ['..', 'the directory above'],
    ['a/b', 'a slash'],
    ['../../etc/passwd', 'a way out'],
    ['a\0', 'a NUL'],
    ['\ud800', 'a lone surrogate'],
    ['é'.repeat(128), '256 bytes'],
  ])('gives no name to %j: %s', (text) => {
    expect(fileNameOf('', text, '', 'verbatim')).toBeNull();
  });

  it.each(['u1', '-rf', '*', 'a\\b', 'a\nb', 'é', 'e\u0301', 'é'.repeat(127), '...', '{customerId}', '😀'])(
    'takes %j as it is',
    (text) => {
      expect(fileNameOf('', text, '', 'verbatim')?.toString('utf8')).toBe(text);
    },
  );

  it('writes a value as encodeURIComponent does, where that is declared', () => {
    expect(fileNameOf('', 'u/1 é', '.pdf', 'uri')?.toString()).toBe('u%2F1%20%C3%A9.pdf');
    expect(fileNameOf('', '..', '', 'uri')).toBeNull();
    expect(fileNameOf('', '..', '.pdf', 'uri')?.toString()).toBe('...pdf');
  });
});
