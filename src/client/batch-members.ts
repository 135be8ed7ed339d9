/** Makes new requests of subjects: refused, or counted and sealed. Many at a time, since targets are asked once for all. */
import { v7 as uuidv7 } from 'uuid';
import type { ResolvedConfig } from '../config/resolved-config.js';
import { isProtected } from '../config/protected.js';
import { commitment, InventoryDigests, newSalt } from '../evidence/inventory-digest.js';
import { assertReceiptWillFit } from '../evidence/write-receipt.js';
import { Sealer } from '../keys/seal.js';
import { readClock } from '../requests/clock.js';
import type { NewRequest } from '../requests/submit.js';
import { referenceToRead } from '../subject/reference.js';
import { identifierValues, type Subject } from '../subject/subject.js';
import { TargetBlockedError, TargetError, TargetUnavailableError } from '../targets/target-error.js';
import { type CountAnswers, countTargets } from '../workflows/erasure/count-targets.js';
import type { ErasureDependencies } from '../workflows/erasure/dependencies.js';
import {
  BoundsExceededError,
  buildInventory,
  type CountedTarget,
  rowsOf,
  WORKFLOW,
  WORKFLOW_VERSION,
} from '../workflows/erasure/inventory.js';
import { sealSubject } from '../workflows/erasure/sealed-subjects.js';
import type { PartSubject } from './batch-source.js';
import { TargetUnreachableError } from './erasures.js';
import { isIdentifierOf } from '../subject/is-identifier.js';

/** What all members of a batch have in common. */
export interface MemberTerms {
  readonly batchId: string;
  readonly requestedBy: string;
  readonly reasonCode: string | null;
  readonly dueAt: Date | null;
}

export type Member = NewRequest & { readonly copies: number };

interface Draft {
  readonly id: string;
  readonly position: number;
  readonly subject: Subject;
}

/**
 * One request for each subject. One that may not be deleted is refused alone: it is `blocked` with its reason, and nothing of
 * it is counted or sealed (WF-8).
 * @throws TargetUnreachableError, TargetError where a target cannot answer for any of them.
 */
export async function makeMembers(
  config: ResolvedConfig,
  deps: ErasureDependencies,
  terms: MemberTerms,
  part: readonly PartSubject[],
): Promise<readonly Member[]> {
  const drafts = part.map(({ position, subject }) => ({ id: uuidv7(), position, subject }));
  const refusals = new Map(drafts.map((draft) => [draft.id, refusalOf(config, terms, draft.subject)]));
  const wanted = drafts.filter(({ id }) => refusals.get(id) === null);
  const answers = await count(deps, wanted);
  const now = await readClock(deps.database);
  const tools = { sealer: new Sealer(deps.ring), digests: new InventoryDigests() };
  return drafts.map((draft) => {
    const refusal = refusals.get(draft.id) ?? null;
    if (refusal !== null) return refused(config, deps, terms, draft, refusal);
    const counted = countedOf(answers.get(draft.id) as CountAnswers);
    if (counted instanceof TargetError) return refused(config, deps, terms, draft, sentence(counted));
    try {
      return submitted(config, deps, terms, draft, counted, now, tools);
    } catch (error) {
      if (!(error instanceof BoundsExceededError)) throw error;
      return refused(config, deps, terms, draft, sentence(error));
    }
  });
}

/** Why a subject may not be deleted in this batch, before anything is counted. */
function refusalOf(config: ResolvedConfig, terms: MemberTerms, subject: Subject): string | null {
  if (isProtected(config, subject)) {
    return 'PROTECTED_SUBJECT: this subject is protected by the configuration and is never deleted';
  }
  if (isIdentifierOf(terms.requestedBy, subject)) return REQUESTER;
  if (terms.reasonCode !== null && isIdentifierOf(terms.reasonCode, subject)) return REASON;
  return null;
}

const REQUESTER = 'INVALID_OPERATOR: the requester is an identifier of this subject; somebody else has to submit it';
const REASON = 'INVALID_ORDER: the reason code is an identifier of this subject; submit it with another one';

async function count(
  { targets }: ErasureDependencies,
  wanted: readonly Draft[],
): Promise<ReadonlyMap<string, CountAnswers>> {
  if (wanted.length === 0) return new Map();
  const subjects = new Map(
    wanted.map(({ id, subject }) => [id, { identifiers: identifierValues(subject), resolved: new Map() }]),
  );
  const answers = await countTargets(targets, targets.inGateOrder, subjects, new AbortController().signal);
  requireAnswers([...answers.values()]);
  const [first] = answers.values();
  for (const [name, answer] of first ?? []) {
    if (!(answer instanceof TargetError)) assertReceiptWillFit(name, targets.declaration(name).kind, answer.places);
  }
  return answers;
}

/**
 * A target that does not answer, or whose declaration does not fit, is nobody's fault: the submit stops, and goes on from there
 * when it is repeated. So is what a target answers for every subject alike.
 */
function requireAnswers(answers: readonly CountAnswers[]): void {
  const faults = new Map<TargetError, number>();
  for (const answer of answers) {
    for (const error of answer.values()) {
      if (error instanceof TargetError) faults.set(error, (faults.get(error) ?? 0) + 1);
    }
  }
  for (const [error, subjects] of faults) {
    if (error instanceof TargetUnavailableError) throw new TargetUnreachableError(error.message, { cause: error });
    if (!(error instanceof TargetBlockedError) || (subjects === answers.length && subjects > 1)) throw error;
  }
}

function countedOf(answers: CountAnswers): ReadonlyMap<string, CountedTarget> | TargetError {
  const counted = new Map<string, CountedTarget>();
  for (const [name, answer] of answers) {
    if (answer instanceof TargetError) return answer;
    counted.set(name, answer);
  }
  return counted;
}

function submitted(
  config: ResolvedConfig,
  deps: ErasureDependencies,
  terms: MemberTerms,
  draft: Draft,
  counted: ReadonlyMap<string, CountedTarget>,
  now: Date,
  { sealer, digests }: { readonly sealer: Sealer; readonly digests: InventoryDigests },
): Member {
  const { id, subject } = draft;
  const salt = newSalt();
  const common = commonOf(config, deps, terms, draft);
  const inventory = buildInventory(deps.settings, commitment(salt, common.subjectReference), counted, now);
  return {
    ...common,
    inventory,
    inventoryDigest: digests.digest({
      schemaVersion: inventory.version,
      workflow: WORKFLOW,
      workflowVersion: WORKFLOW_VERSION,
      commitment: inventory.commitment,
      inventory,
    }),
    sealed: sealSubject(sealer, id, subject, salt),
    copies: rowsOf(inventory.targets),
  };
}

/** Who must not be named is not referred to either: the requester stands beside the reference. */
function refused(
  config: ResolvedConfig,
  deps: ErasureDependencies,
  terms: MemberTerms,
  draft: Draft,
  refusal: string,
): Member {
  const common = commonOf(config, deps, terms, draft);
  const isNamed = refusal === REQUESTER || refusal === REASON;
  const subjectReference = isNamed ? null : common.subjectReference;
  return { ...common, subjectReference, inventory: null, inventoryDigest: null, refusal, sealed: [], copies: 0 };
}

function commonOf(
  config: ResolvedConfig,
  { ring, settings }: ErasureDependencies,
  terms: MemberTerms,
  { id, position, subject }: Draft,
) {
  return {
    id,
    workflow: WORKFLOW,
    workflowVersion: WORKFLOW_VERSION,
    target: null,
    subjectReference: referenceToRead(ring, { tenant: settings.tenant, identifier: subject.key }),
    requestedBy: terms.requestedBy,
    reasonCode: terms.reasonCode,
    idempotencyKey: null,
    approvalsRequired: config.approvals.required,
    dueAt: terms.dueAt,
    batch: { id: terms.batchId, position },
  };
}

function sentence({ code, message }: { readonly code: string; readonly message: string }): string {
  return `${code}: ${message}`;
}
