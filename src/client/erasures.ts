/** Submitting real deletions, and asking about them. */
import { v7 as uuidv7 } from 'uuid';
import type { ResolvedConfig } from '../config/resolved-config.js';
import { commitment, newSalt } from '../evidence/inventory-digest.js';
import { exportReceipts } from '../evidence/receipt-export.js';
import { assertReceiptWillFit } from '../evidence/write-receipt.js';
import { readClock } from '../requests/clock.js';
import { operatorName } from '../requests/operator.js';
import { readReceipts } from '../requests/receipts.js';
import { readRequest } from '../requests/read.js';
import type { RequestRow } from '../requests/request.js';
import { neverApprovable, RequestRefusedError, unknownRequest } from '../requests/request-error.js';
import { revise } from '../requests/revise.js';
import { readSnapshot, type Snapshot } from '../requests/snapshot.js';
import { submit } from '../requests/submit.js';
import { Sealer } from '../keys/seal.js';
import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';
import { InvalidSubjectError } from '../subject/invalid-subject-error.js';
import { identifierValues, type Subject } from '../subject/subject.js';
import { referenceToRead } from '../subject/reference.js';
import { TargetError, TargetUnavailableError } from '../targets/target-error.js';
import { type CountSubject, countTargets } from '../workflows/erasure/count-targets.js';
import type { ErasureDependencies } from '../workflows/erasure/dependencies.js';
import {
  buildInventory,
  type CountedTarget,
  digestOf,
  type ErasureInventory,
  type InventoryTarget,
  presentPlan,
  readInventory,
  WORKFLOW,
  WORKFLOW_VERSION,
} from '../workflows/erasure/inventory.js';
import { openSubjects, sealSubject } from '../workflows/erasure/sealed-subjects.js';
import type { StatusAnswer } from '../registry/registry.js';
import type { JsonObject } from '../storage/json.js';
import { type Identifiers, readSubject, requireUnprotected, requireWhatTargetsNeed } from './deletable-subject.js';
import { type DeletionRequest, publicRequest } from './public-status.js';
import { idempotencyConflict, idempotencyToken } from './idempotency-key.js';
import { recordRefusal } from './refusals.js';
import { requestIdOf } from './request-id.js';
import {
  isSubjectKey,
  isTheSubject,
  refuseSubjectAsOperator,
  refuseSubjectAsReason,
  type SubjectKeys,
} from './subject-as-operator.js';
import { liveRequest, reasonCode } from './user-deletions.js';

/** A target does not answer: an inventory without it would be approved for less than is there. */
export class TargetUnreachableError extends ExpungeError {
  readonly code = 'TARGET_UNREACHABLE';
  readonly outcome: ErrorOutcome = 'unavailable';
}

export interface SubmitOptions {
  /** An operator's id; `self` where the person asked. */
  readonly requestedBy: string;
  /** A machine-readable reason, such as MAIL_REQUEST. */
  readonly reasonCode?: string;
  /** Repeating a call with its key gives the first call's request. Kept as a keyed hash: it may be made of an identifier. */
  readonly idempotencyKey?: string;
  /** Until when it has to be done. */
  readonly dueAt?: Date;
}

export interface SubmittedErasure {
  readonly id: string;
  readonly workflow: typeof WORKFLOW;
  readonly status: string;
  readonly subject_reference: string | null;
  readonly inventory: ErasureInventory;
  readonly inventory_digest: string;
  readonly requested_by: string;
  readonly reason_code: string | null;
  readonly created_at: Date;
  readonly due_at: Date | null;
}

export interface RevisedErasure {
  readonly inventory: ErasureInventory;
  readonly inventory_digest: string;
  readonly status: string;
}

export class Erasures {
  readonly #config: ResolvedConfig;
  readonly #deps: ErasureDependencies;
  readonly #subjectKeys: SubjectKeys | null;

  /** @param subjectKeys - tells an operator from the subject; null where no key ring is configured. */
  constructor(config: ResolvedConfig, deps: ErasureDependencies, subjectKeys: SubjectKeys | null) {
    this.#config = config;
    this.#deps = deps;
    this.#subjectKeys = subjectKeys;
  }

  /**
   * Counts what is there, seals the identifiers, and records the request. Nothing is deleted before it is approved.
   * @throws InvalidSubjectError, ProtectedSubjectError, BoundsExceededError, TargetDeclarationError, TargetUnreachableError,
   *   RequestRefusedError LIVE_REQUEST_EXISTS or IDEMPOTENCY_CONFLICT; nothing was changed then.
   */
  async submit(identifiers: Identifiers, options: SubmitOptions): Promise<SubmittedErasure> {
    const subject = readSubject(this.#config, identifiers);
    const requestedBy = operatorName('--requested-by', options.requestedBy);
    refuseSubjectAsOperator(requestedBy, subject);
    return recordRefusal(this.#deps.database, null, requestedBy, () => this.#submit(subject, requestedBy, options));
  }

  async #submit(subject: Subject, requestedBy: string, options: SubmitOptions): Promise<SubmittedErasure> {
    const { database, ring } = this.#deps;
    const code = reasonCode(options.reasonCode);
    if (code !== null) refuseSubjectAsReason(code, subject);
    this.#requireDeletable(subject);
    const reference = this.#reference(subject);
    const id = uuidv7();
    const salt = newSalt();
    const inventory = await this.#count(subject, commitment(salt, reference));
    const digest = digestOf(inventory, id);
    const sealed = sealSubject(new Sealer(ring), id, subject, salt);
    const request = {
      id,
      workflow: WORKFLOW,
      workflowVersion: WORKFLOW_VERSION,
      target: null,
      subjectReference: reference,
      inventory,
      inventoryDigest: digest,
      requestedBy,
      reasonCode: code,
      idempotencyKey: this.#idempotency(options.idempotencyKey),
      approvalsRequired: this.#config.approvals.required,
      dueAt: options.dueAt ?? null,
      sealed,
    };
    const [result] = await database.transaction((tx) => submit(tx, [request]));
    if (result?.kind === 'repeated') return this.#repeated(result.existing, reference);
    if (result?.kind !== 'submitted') throw liveRequest(result?.existing ?? id);
    return this.#submitted(id);
  }

  /** What `submit` would ask approval for, without recording anything. */
  async preview(identifiers: Identifiers): Promise<ErasureInventory> {
    const subject = readSubject(this.#config, identifiers);
    this.#requireDeletable(subject);
    return this.#count(subject, commitment(newSalt(), this.#reference(subject)));
  }

  /** @throws RequestRefusedError UNKNOWN_REQUEST */
  async get<T extends string>(requestId: string): Promise<DeletionRequest<T>> {
    const id = requestIdOf(requestId);
    const snapshot = await readSnapshot(this.#deps.database, id);
    if (snapshot?.request.workflow !== WORKFLOW) throw unknownRequest(id);
    return publicRequest<T>(snapshot);
  }

  /** What the registry says of a subject (REG-1). @throws InvalidSubjectError */
  status(identifiers: Identifiers): Promise<StatusAnswer> {
    return this.#deps.registry.getDeletionStatus(this.#reference(readSubject(this.#config, identifiers)));
  }

  /**
   * A new revision of the inventory, counted now under the present configuration; it needs its own approval (WF-6).
   * Opens the request, and so needs the worker's key file.
   */
  async revise(requestId: string, by: string): Promise<RevisedErasure> {
    const id = requestIdOf(requestId);
    const revisedBy = operatorName('--by', by);
    return recordRefusal(this.#deps.database, id, revisedBy, () => this.#revise(id, by, revisedBy));
  }

  async #revise(requestId: string, typed: string, revisedBy: string): Promise<RevisedErasure> {
    const { database, ring } = this.#deps;
    const snapshot = await readSnapshot(database, requestId);
    if (snapshot?.request.workflow !== WORKFLOW) throw unknownRequest(requestId);
    // Before any other refusal, which would be recorded with the operator's name.
    this.#refuseSubject(snapshot.request, typed);
    // What it knew of its subject is destroyed.
    if (isEnded(snapshot.request)) throw nothingToRevise(snapshot.request);
    const current = snapshot.inventories.at(-1);
    if (current === undefined)
      throw snapshot.request.batch_id === null ? notCounted(requestId) : neverApprovable(requestId);
    const opened = (await openSubjects(database, ring, [requestId])).get(requestId);
    if (opened instanceof Error) throw opened;
    if (opened === undefined) throw unknownRequest(requestId);
    refuseSubjectAsOperator(revisedBy, {
      identifiers: Object.values(opened.identifiers).map((value) => ({ value })),
    });
    const before = readInventory(current.inventory, requestId);
    const inventory = await this.#countSubject(
      { identifiers: opened.identifiers, resolved: new Map(opened.resolved) },
      before.commitment,
      this.#begunTargets(snapshot, before),
    );
    const inventoryDigest = digestOf(inventory, requestId);
    const from = current.inventory_digest;
    const { status } = await database.transaction((tx) =>
      revise(tx, { requestId, from, inventory, inventoryDigest, revisedBy }),
    );
    return { inventory, inventory_digest: inventoryDigest, status };
  }

  /** The signed receipts of a request, as an auditor verifies them off-line. @throws RequestRefusedError UNKNOWN_REQUEST */
  async exportReceipts(requestId: string): Promise<string> {
    const id = requestIdOf(requestId);
    if ((await readRequest(this.#deps.database, id)) === null) throw unknownRequest(id);
    const receipts = await readReceipts(this.#deps.database, id);
    return exportReceipts(receipts.map(({ receipt }) => receipt));
  }

  /**
   * What is being erased already, under the plan that is configured now, keeps the counts that were approved for it: they
   * are what the person agreed to, and it is not looked at again.
   */
  #begunTargets({ stages }: Snapshot, { targets }: ErasureInventory): ReadonlyMap<string, InventoryTarget> {
    const declarations = this.#deps.settings.targets;
    const begun = targets.filter(({ name, plan_digest }) => {
      const declaration = declarations[name];
      if (declaration === undefined || presentPlan(declaration) !== plan_digest) return false;
      return stages.some(({ stage, target_community_id, metadata_json }) => {
        const intent = metadata_json.intent as JsonObject | undefined;
        return stage === 'erase' && target_community_id === name && intent?.['plan_digest'] === plan_digest;
      });
    });
    return new Map(begun.map((target) => [target.name, target]));
  }

  /** @throws ProtectedSubjectError, InvalidSubjectError */
  #requireDeletable(subject: Subject): void {
    requireUnprotected(this.#config, subject);
    requireWhatTargetsNeed(this.#config, subject);
  }

  #refuseSubject({ id, subject_reference: reference }: RequestRow, name: string): void {
    if (reference === null || this.#subjectKeys === null) return;
    if (isSubjectKey(name, reference, this.#subjectKeys)) throw isTheSubject(id);
  }

  #idempotency(key: string | undefined): string | null {
    return key === undefined ? null : idempotencyToken(this.#deps.ring, this.#deps.settings.tenant, key);
  }

  #reference(subject: Subject): string {
    return referenceToRead(this.#deps.ring, { tenant: this.#deps.settings.tenant, identifier: subject.key });
  }

  #count(subject: Subject, committed: string): Promise<ErasureInventory> {
    return this.#countSubject({ identifiers: identifierValues(subject), resolved: new Map() }, committed);
  }

  async #countSubject(
    subject: CountSubject,
    committed: string,
    kept: ReadonlyMap<string, InventoryTarget> = new Map(),
  ): Promise<ErasureInventory> {
    const { settings, targets, database } = this.#deps;
    if (targets.inGateOrder.length === 0) {
      throw new InvalidSubjectError(
        "No target is declared: there is nothing to count; an application without targets submits with count: 'later', and a worker counts.",
      );
    }
    const names = targets.inGateOrder.filter((name) => !kept.has(name));
    const answers = (
      await countTargets(targets, names, new Map([['subject', subject]]), new AbortController().signal)
    ).get('subject');
    const counted = new Map<string, CountedTarget>();
    for (const name of names) {
      const answer = answers?.get(name);
      if (answer instanceof TargetUnavailableError) throw new TargetUnreachableError(answer.message, { cause: answer });
      if (answer instanceof TargetError) throw answer;
      if (answer === undefined) throw new Error(`Target ${name} was not counted.`);
      counted.set(name, answer);
    }
    for (const [name, { places }] of counted) assertReceiptWillFit(name, targets.declaration(name).kind, places);
    return buildInventory(settings, committed, counted, await readClock(database), kept);
  }

  async #repeated(existing: string, reference: string): Promise<SubmittedErasure> {
    const submitted = await this.#submitted(existing);
    // At its end a request may have nothing left that could be compared.
    const known = submitted.subject_reference;
    if (known === null || !known.startsWith('ref1.') || known === reference) return submitted;
    throw idempotencyConflict(existing);
  }

  async #submitted(id: string): Promise<SubmittedErasure> {
    const snapshot = await readSnapshot(this.#deps.database, id);
    const inventory = snapshot?.inventories.at(-1);
    if (snapshot === null) throw unknownRequest(id);
    if (inventory === undefined) throw notCounted(id);
    const { request } = snapshot;
    return {
      id,
      workflow: WORKFLOW,
      status: request.status,
      subject_reference: request.subject_reference,
      inventory: inventory.inventory as unknown as ErasureInventory,
      inventory_digest: inventory.inventory_digest,
      requested_by: request.requested_by,
      reason_code: request.reason_code,
      created_at: request.created_at,
      due_at: request.due_at,
    };
  }
}

function notCounted(id: string): RequestRefusedError {
  return new RequestRefusedError(
    'WRONG_STATUS',
    `Request ${id} was submitted to be counted later, and no worker has counted it yet: expunge run ${id} does.`,
    id,
  );
}

function isEnded({ status }: RequestRow): boolean {
  return status === 'completed' || status === 'cancelled';
}

function nothingToRevise({ id, status }: RequestRow): RequestRefusedError {
  return new RequestRefusedError('WRONG_STATUS', `Request ${id} is ${status}: nothing about it can be changed.`, id);
}
