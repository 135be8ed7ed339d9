import { describe, expect, it } from 'vitest';
import { parseSubject } from '../subject/subject.js';
import { defineConfig } from './define-config.js';
import { isProtected } from './protected.js';

const config = defineConfig({
  subject: { key: 'constructor', identifiers: { constructor: {}, email: { normalise: 'email' } } },
  targets: {},
  protected: { constructor: ['0'], email: ['root@example.com'] },
});

function isProtectedSubject(input: Record<string, string>): boolean {
  return isProtected(config, parseSubject(config.subject.identifiers, config.subject.key, input));
}

describe('isProtected', () => {
  it('WF-9: finds a protected value under any of the identifiers, in any spelling', () => {
    expect(isProtectedSubject({ constructor: '1', email: 'root@example.com' })).toBe(true);
    expect(isProtectedSubject({ constructor: '1', email: ' root@EXAMPLE.COM' })).toBe(true);
  });

  it('takes values as those of their own identifier, and whole', () => {
    expect(isProtectedSubject({ constructor: 'root@example.com' })).toBe(false);
    expect(isProtectedSubject({ constructor: '1', email: 'root@example.co' })).toBe(false);
    expect(isProtectedSubject({ constructor: '1', email: 'Root@example.com' })).toBe(false);
  });
});
