/**
 * Counts for a request what its submit could not: an application has no credentials of targets (WF-1). The same checks as at a
 * submit that counts; what is refused blocks its request alone.
 */
import type { Workflow } from '../../engine/workflow.js';
import { commitment } from '../../evidence/inventory-digest.js';
import { assertReceiptWillFit } from '../../evidence/write-receipt.js';
import { describeError } from '../../observe/describe-error.js';
import { isExpungeError } from '../../observe/expunge-error.js';
import { readClock } from '../../requests/clock.js';
import type { RequestRow } from '../../requests/request.js';
import type { Preparation } from '../../requests/save-preparations.js';
import { isIdentifierOf } from '../../subject/is-identifier.js';
import { TargetError } from '../../targets/target-error.js';
import { outcomeOf } from './call-target.js';
import { type CountAnswers, type CountSubject, countTargets } from './count-targets.js';
import type { ErasureDependencies } from './dependencies.js';
import { buildInventory, type CountedTarget, digestOf } from './inventory.js';
import { type OpenedSubject, openSubjects } from './sealed-subjects.js';

type Opened = { readonly request: RequestRow; readonly subject: OpenedSubject };

/** A batch: one call to each target for all of its requests. */
export function prepareErasures(deps: ErasureDependencies): NonNullable<Workflow['prepare']> {
  return async (requests, signal) => {
    const prepared = new Map<string, Preparation>();
    const subjects = await openSubjects(
      deps.database,
      deps.ring,
      requests.map(({ id }) => id),
    );
    const open = new Map<string, Opened>();
    for (const request of requests) {
      const subject = subjects.get(request.id);
      const refusal = refusalOf(deps, request, subject);
      if (refusal !== null) prepared.set(request.id, { kind: 'failed', error: refusal, retryable: false });
      else open.set(request.id, { request, subject: subject as OpenedSubject });
    }
    if (open.size === 0) return prepared;
    const counted = new Map(
      [...open].map(([id, { subject }]): [string, CountSubject] => [
        id,
        { identifiers: subject.identifiers, resolved: new Map(subject.resolved) },
      ]),
    );
    const answers = await countTargets(deps.targets, deps.targets.inGateOrder, counted, signal);
    const now = await readClock(deps.database);
    for (const [id, opened] of open) prepared.set(id, preparation(deps, opened, answers.get(id) ?? new Map(), now));
    return prepared;
  };
}

/** Why a request is not counted at all; null where it is. No identifier is repeated. */
function refusalOf(
  { settings, targets }: ErasureDependencies,
  request: RequestRow,
  subject: OpenedSubject | Error | undefined,
): string | null {
  if (subject === undefined || subject instanceof Error) return inWords(subject);
  const { identifiers } = subject;
  if (settings.isProtected(identifiers)) {
    return 'PROTECTED_SUBJECT: the subject is protected by the configuration and is never deleted';
  }
  if (isIdentifierOf(request.requested_by, { identifiers: Object.values(identifiers).map((value) => ({ value })) })) {
    return 'INVALID_OPERATOR: the request names its subject as the one who requested it: submit it anew, with an id of its own or self';
  }
  if (targets.inGateOrder.length === 0) {
    return 'INVALID_SUBJECT: this worker has no target declared: there is nothing to delete from';
  }
  for (const [name, { identifiers: needed }] of Object.entries(settings.targets)) {
    const missing = needed.find((identifier) => !Object.hasOwn(identifiers, identifier));
    if (missing !== undefined) {
      return `INVALID_SUBJECT: target ${name} finds people by ${missing}, which was not given: submit the request anew with it`;
    }
  }
  return null;
}

function preparation(
  deps: ErasureDependencies,
  { request, subject }: Opened,
  answers: CountAnswers,
  now: Date,
): Preparation {
  const counted = new Map<string, CountedTarget>();
  // What cannot be had at all is said before what is only waited for.
  const faults = [...answers.values()].filter((answer) => answer instanceof TargetError);
  const outcomes = faults.map((fault) => outcomeOf(fault, pausesBefore(request, now)));
  const worst = outcomes.find(({ kind }) => kind === 'failed') ?? outcomes[0];
  if (worst?.kind === 'failed' || worst?.kind === 'postponed') return worst;
  for (const [name, answer] of answers) counted.set(name, answer as CountedTarget);
  try {
    for (const [name, { places }] of counted) assertReceiptWillFit(name, deps.targets.declaration(name).kind, places);
    const committed = commitment(subject.salt, request.subject_reference ?? '');
    const inventory = buildInventory(deps.settings, committed, counted, now);
    return { kind: 'counted', inventory, inventoryDigest: digestOf(inventory, request.id) };
  } catch (error) {
    if (!isExpungeError(error)) throw error;
    return { kind: 'failed', error: inWords(error), retryable: false };
  }
}

/** The longer it has waited, the longer it waits again: as many pauses as would have passed since it was submitted. */
function pausesBefore({ created_at, last_error }: RequestRow, now: Date): number {
  if (last_error === null) return 0;
  return Math.floor(Math.log2(Math.max(1, (now.getTime() - created_at.getTime()) / 1000)));
}

function inWords(error: unknown): string {
  const { code, message } = describeError(error);
  return message.includes(code) ? message : `${code}: ${message}`;
}
