/**
 * Records a deletion that a worker counts later (WF-1): for applications, which have no credentials of targets, and which may
 * want the request to exist exactly if their own transaction commits.
 */
import { sql } from 'kysely';
import { v7 as uuidv7 } from 'uuid';
import type { ResolvedConfig } from '../config/resolved-config.js';
import { newSalt } from '../evidence/inventory-digest.js';
import type { KeyRing } from '../keys/key-ring.js';
import { Sealer } from '../keys/seal.js';
import { operatorName } from '../requests/operator.js';
import { submit } from '../requests/submit.js';
import { borrow, type BorrowedTransaction } from '../storage/borrowed-transaction.js';
import type { Database, Queries } from '../storage/database.js';
import { referenceToRead } from '../subject/reference.js';
import type { Subject } from '../subject/subject.js';
import { WORKFLOW, WORKFLOW_VERSION } from '../workflows/erasure/inventory.js';
import { sealSubject } from '../workflows/erasure/sealed-subjects.js';
import { type Identifiers, readSubject, requireUnprotected, requireWhatTargetsNeed } from './deletable-subject.js';
import { tenantOf } from './erasure-settings.js';
import { idempotencyConflict, idempotencyToken } from './idempotency-key.js';
import { recordRefusal } from './refusals.js';
import { refuseSubjectAsOperator, refuseSubjectAsReason } from './subject-as-operator.js';
import type { SubmitOptions } from './erasures.js';
import { liveRequest, reasonCode } from './user-deletions.js';

/** How a request is recorded that a worker counts. */
export interface SubmitLaterOptions extends SubmitOptions {
  /** Nothing is counted now, and no target is opened: a worker does it, and the request waits for approval then. */
  readonly count: 'later';
  /**
   * An open transaction of the application on the database that holds Expunge's schema: a `Client` or `PoolClient` of
   * node-postgres after BEGIN, a `Transaction` of Kysely or of PGlite, or anything with their `query`. Where it is rolled back,
   * there is no request. Its role needs what `expunge_client` has. Absent: a transaction of Expunge's own.
   */
  readonly tx?: BorrowedTransaction;
}

/** A request as it was recorded. Where a call is repeated by its idempotency key: as the first one's stands now. */
export interface RecordedErasure {
  readonly id: string;
  readonly workflow: typeof WORKFLOW;
  readonly status: string;
  readonly subject_reference: string | null;
  /** Null until a worker has counted. */
  readonly inventory_digest: string | null;
  readonly requested_by: string;
  readonly reason_code: string | null;
  readonly created_at: Date;
  readonly due_at: Date | null;
}

export class SubmitLater {
  readonly #config: ResolvedConfig;
  readonly #database: Database;
  readonly #ring: () => KeyRing;

  /** @param ring - throws where no key ring is configured; the client's is enough. */
  constructor(config: ResolvedConfig, database: Database, ring: () => KeyRing) {
    this.#config = config;
    this.#database = database;
    this.#ring = ring;
  }

  /** @throws as `Client.submit` does with `count: 'later'`. */
  async submit(identifiers: Identifiers, options: SubmitLaterOptions): Promise<RecordedErasure> {
    const subject = readSubject(this.#config, identifiers);
    const requestedBy = operatorName('requestedBy', options.requestedBy);
    refuseSubjectAsOperator(requestedBy, subject);
    const { tx } = options;
    const write = (queries: Queries) => this.#write(queries, subject, requestedBy, options);
    if (tx === undefined) {
      return recordRefusal(this.#database, null, requestedBy, () => this.#database.transaction(write));
    }
    // Refusals, too, are recorded in the application's transaction, and nowhere else: what it rolls back has never happened.
    const queries = await borrow(tx, this.#database.schema);
    return recordRefusal(queries, null, requestedBy, () => write(queries));
  }

  async #write(
    queries: Queries,
    subject: Subject,
    requestedBy: string,
    options: SubmitLaterOptions,
  ): Promise<RecordedErasure> {
    const code = reasonCode(options.reasonCode);
    if (code !== null) refuseSubjectAsReason(code, subject);
    requireUnprotected(this.#config, subject);
    requireWhatTargetsNeed(this.#config, subject);
    const ring = this.#ring();
    const tenant = tenantOf(this.#config);
    const reference = referenceToRead(ring, { tenant, identifier: subject.key });
    const id = uuidv7();
    const [result] = await submit(queries, [
      {
        id,
        workflow: WORKFLOW,
        workflowVersion: WORKFLOW_VERSION,
        target: null,
        subjectReference: reference,
        inventory: null,
        inventoryDigest: null,
        requestedBy,
        reasonCode: code,
        idempotencyKey:
          options.idempotencyKey === undefined ? null : idempotencyToken(ring, tenant, options.idempotencyKey),
        approvalsRequired: this.#config.approvals.required,
        dueAt: options.dueAt ?? null,
        sealed: sealSubject(new Sealer(ring), id, subject, newSalt()),
      },
    ]);
    if (result?.kind === 'submitted') return readRecorded(queries, id);
    if (result?.kind !== 'repeated') throw liveRequest(result?.existing ?? id);
    return requireSameSubject(await readRecorded(queries, result.existing), reference);
  }
}

/** At its end a request may have nothing left that could be compared. */
function requireSameSubject(recorded: RecordedErasure, reference: string): RecordedErasure {
  const known = recorded.subject_reference;
  if (known === null || !known.startsWith('ref1.') || known === reference) return recorded;
  throw idempotencyConflict(recorded.id);
}

/** Times as text: an application may have taught its driver to read them in another way. */
async function readRecorded({ db, t }: Queries, id: string): Promise<RecordedErasure> {
  type Row = Omit<RecordedErasure, 'created_at' | 'due_at'> & { readonly created: string; readonly due: string | null };
  const { rows } = await sql<Row>`
    SELECT id::text, workflow, status, subject_reference, inventory_digest, requested_by, reason_code,
           (extract(epoch FROM created_at) * 1000)::text AS created, (extract(epoch FROM due_at) * 1000)::text AS due
      FROM ${t.requests} WHERE id = ${id}::uuid`.execute(db);
  const { created, due, ...row } = rows[0] as Row;
  return { ...row, created_at: new Date(Number(created)), due_at: due === null ? null : new Date(Number(due)) };
}
