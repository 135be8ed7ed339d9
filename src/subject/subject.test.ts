import { describe, expect, it } from 'vitest';
import { identifierDeclarationSchema, identifierNameSchema, MAX_IDENTIFIER_BYTES } from './identifier.js';
import { InvalidSubjectError } from './invalid-subject-error.js';
import { identifierValues, parseSubject } from './subject.js';

const declarations = {
  customerId: { opaque: true },
  email: { normalise: 'email' },
  login: { normalise: 'email', foldLocalPart: true },
} as const;

const parse = (input: Record<string, unknown>) => parseSubject(declarations, 'customerId', input);

function refusal(input: Record<string, unknown>): InvalidSubjectError {
  try {
    parse(input);
  } catch (error) {
    if (error instanceof InvalidSubjectError) return error;
    throw error;
  }
  throw new Error('was not refused');
}

describe('parseSubject', () => {
  it('WF-4: normalises what was given, in the declared order, and names the key', () => {
    const subject = parse({ login: 'JANE@X.com', email: ' Jane@EXAMPLE.com ', customerId: '42' });
    expect(subject.key).toEqual({ name: 'customerId', value: '42', normaliser: 'exact', normaliserVersion: 1 });
    expect(subject.identifiers.map((it) => [it.name, it.value, it.normaliser])).toEqual([
      ['customerId', '42', 'exact'],
      ['email', 'Jane@example.com', 'email'],
      ['login', 'jane@x.com', 'email-folded'],
    ]);
    expect(identifierValues(subject)).toEqual({ customerId: '42', email: 'Jane@example.com', login: 'jane@x.com' });
  });

  it('leaves out what is undefined', () => {
    expect(identifierValues(parse({ customerId: '42', email: undefined }))).toEqual({ customerId: '42' });
  });

  it('REG-14: refuses a subject without its key', () => {
    expect(refusal({ email: 'jane@example.com' })).toMatchObject({ code: 'INVALID_SUBJECT', outcome: 'refused' });
    expect(refusal({ email: 'jane@example.com' }).message).toContain('customerId');
    expect(refusal({}).message).toContain('customerId');
  });

  it.each(['phone', 'constructor', 'toString', 'hasOwnProperty'])('refuses the undeclared identifier %s', (name) => {
    expect(refusal({ customerId: '42', [name]: 'x' }).message).toContain('declared are customerId, email, login');
  });

  it('refuses an identifier named __proto__', () => {
    expect(refusal(JSON.parse('{"customerId":"42","__proto__":"x"}') as Record<string, unknown>)).toBeInstanceOf(
      InvalidSubjectError,
    );
  });

  it('WF-2: does not repeat an undeclared name, which may be a value', () => {
    expect(refusal({ customerId: '42', 'jane@example.com': 'email' }).message).not.toContain('jane');
  });

  it('does not take an inherited property for an identifier', () => {
    expect(refusal(Object.create({ customerId: '42' }) as Record<string, unknown>)).toBeInstanceOf(InvalidSubjectError);
  });
});

describe('REG-5: identifiers that cannot name anybody', () => {
  const secret = 'secret';
  it.each<[string, Record<string, unknown>, string]>([
    ['empty', { customerId: '' }, 'customerId is empty'],
    ['blank', { customerId: ' \u3000' }, 'customerId is empty'],
    ['null', { customerId: null }, 'customerId is not a string'],
    ['a number', { customerId: 42 }, 'customerId is not a string'],
    ['with NUL', { customerId: `${secret}\0` }, 'customerId holds a control character'],
    ['with a line break', { customerId: `${secret}\n` }, 'customerId holds a control character'],
    ['with DEL', { customerId: `${secret}\x7f` }, 'customerId holds a control character'],
    ['with a C1 control', { customerId: `${secret}\x85` }, 'customerId holds a control character'],
    ['with NUL in a local part', { customerId: '1', email: `${secret}\0@x.com` }, 'email holds a control character'],
    ['with a lone surrogate', { customerId: `${secret}\ud83d` }, 'customerId holds a lone surrogate'],
    [
      'with a lone surrogate in an e-mail',
      { customerId: '1', email: `${secret}@x\udc00` },
      'email holds a lone surrogate',
    ],
    ['too long', { customerId: secret.repeat(200) }, 'customerId is longer than 1024 bytes'],
    ['too long in bytes only', { customerId: 'é'.repeat(513) }, 'customerId is longer than 1024 bytes'],
    // U+0958 is excluded from composition: NFC turns its three bytes into six.
    [
      'too long once it is composed',
      { customerId: '1', email: `${'\u0958'.repeat(300)}@x` },
      'email is longer than 1024 bytes',
    ],
    ['no address', { customerId: '1', email: secret }, 'email is no e-mail address'],
  ])('%s', (_name, input, message) => {
    const error = refusal(input);
    expect(error.message).toContain(message);
    expect(error.message).not.toContain(secret);
    expect(error).toMatchObject({ code: 'INVALID_SUBJECT', outcome: 'refused' });
  });

  it('accepts the longest', () => {
    expect(parse({ customerId: 'é'.repeat(MAX_IDENTIFIER_BYTES / 2) }).key.value).toHaveLength(512);
  });

  it('accepts a character beyond the basic plane', () => {
    expect(parse({ customerId: '😀' }).key.value).toBe('😀');
  });
});

describe('declarations of identifiers', () => {
  it.each([
    {},
    { opaque: true },
    { normalise: 'exact' },
    { normalise: 'email' },
    { normalise: 'email', foldLocalPart: true },
    { type: 'string' },
  ])('%j is one', (declaration) => {
    expect(identifierDeclarationSchema.safeParse(declaration).success).toBe(true);
  });

  it.each([
    { opaque: false },
    { normalise: 'Email' },
    { foldLocalPart: true },
    { normalise: 'exact', foldLocalPart: false },
    { opaque: true, normalise: 'email' },
    { type: 'number' },
    { normalize: 'email' },
  ])('%j is none', (declaration) => {
    expect(identifierDeclarationSchema.safeParse(declaration).success).toBe(false);
  });

  it.each(['', '1a', 'a b', 'a@b', '__proto__', 'a'.repeat(64)])('%j is no name', (name) => {
    expect(identifierNameSchema.safeParse(name).success).toBe(false);
  });
});
