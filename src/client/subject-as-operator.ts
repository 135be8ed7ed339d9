/** Operators' ids are kept for ever; a subject's identifiers are not. So the one must never be the other (WF-2). */
import { RequestRefusedError } from '../requests/request-error.js';
import type { Subject } from '../subject/subject.js';

/** @throws RequestRefusedError INVALID_OPERATOR where the name is one of the subject's identifiers. */
export function refuseSubjectAsOperator(name: string, subject: Pick<Subject, 'identifiers'>): void {
  const folded = name.normalize('NFC').toLowerCase();
  if (!subject.identifiers.some(({ value }) => value.normalize('NFC').toLowerCase() === folded)) return;
  throw new RequestRefusedError(
    'INVALID_OPERATOR',
    'The operator given is an identifier of the subject, which would stay in the record: give self where the person asked.',
  );
}
