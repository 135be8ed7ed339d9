import { describe, expect, it } from 'vitest';
import {
  TargetBlockedError,
  TargetDeclarationError,
  TargetFailedError,
  TargetUnavailableError,
} from '../target-error.js';
import { asTargetError, NoAnswer, ServerRefusal } from './faults.js';

const known = { constraints: new Set(['person_pkey']), tables: new Set(['person']) };

describe('what becomes of a fault of the server', () => {
  it.each([
    ['08006', TargetUnavailableError],
    ['25006', TargetUnavailableError],
    ['40001', TargetUnavailableError],
    ['40P01', TargetUnavailableError],
    ['53300', TargetUnavailableError],
    ['53100', TargetUnavailableError],
    ['55P03', TargetUnavailableError],
    ['57014', TargetUnavailableError],
    ['57P01', TargetUnavailableError],
    ['57P03', TargetUnavailableError],
    ['58030', TargetUnavailableError],
    ['42P01', TargetDeclarationError],
    ['42703', TargetDeclarationError],
    ['3F000', TargetDeclarationError],
    ['42501', TargetBlockedError],
    ['28P01', TargetBlockedError],
    ['3D000', TargetBlockedError],
    ['23514', TargetBlockedError],
    ['23502', TargetBlockedError],
    ['23505', TargetBlockedError],
    ['22001', TargetBlockedError],
    ['23503', TargetFailedError],
    ['P0001', TargetFailedError],
    ['XX000', TargetFailedError],
    ['0A000', TargetFailedError],
  ])('WF-29: %s is a %o', (sqlstate, type) => {
    const error = asTargetError(new ServerRefusal({ sqlstate, place: 'person' }), 'shop', known);
    expect(error).toBeInstanceOf(type);
    expect(error).toMatchObject({ detail: { target: 'shop', place: 'person', cause: sqlstate } });
  });

  it('WF-2: names a constraint and a table only where the catalogue has them, and passes no cause on', () => {
    const at = (constraint: string, table: string) =>
      asTargetError(new ServerRefusal({ sqlstate: '23505', constraint, table }), 'shop', known) as Error;
    expect(at('person_pkey', 'person').message).toContain('constraint person_pkey, table person');
    expect(at('ann@example.org', 'Ann').message).not.toMatch(/ann@|Ann/);
    expect(at('person_pkey', 'person').cause).toBeUndefined();
  });

  it('takes silence for a reason to wait, and a mistake of our own for what it is', () => {
    expect(asTargetError(new NoAnswer('ECONNREFUSED'), 'shop', null)).toMatchObject({
      code: 'TARGET_UNAVAILABLE',
      detail: { cause: 'ECONNREFUSED' },
    });
    const mistake = new TypeError('x');
    expect(asTargetError(mistake, 'shop', null)).toBe(mistake);
  });
});
