/** Operators' names, as they stand in the record and in its log. */
import { RequestRefusedError } from './request-error.js';

const PRINTABLE = /^[^\p{C}]{1,200}$/u;

/**
 * The name without surrounding space.
 * @throws RequestRefusedError INVALID_OPERATOR when it is blank, longer than 200 characters or holds control characters.
 */
export function operatorName(option: string, value: string): string {
  const name = value.normalize('NFC').trim();
  // What is approved by a standing approval is approved under its name, which is no person's.
  if (!PRINTABLE.test(name) || fold(name).startsWith('standing-approval:')) {
    throw new RequestRefusedError(
      'INVALID_OPERATOR',
      `${option} is blank, too long, not printable, or the name of a standing approval: give the operator's id, of 1 to 200 characters.`,
    );
  }
  return name;
}

/** Whether two names are the same person: case and surrounding space make no difference (OP-3). */
export function isSameOperator(one: string, other: string): boolean {
  return fold(one) === fold(other);
}

function fold(name: string): string {
  return name.normalize('NFC').trim().toLowerCase();
}
