/** The facade: what the command line and an application call. */
import type { ResolvedConfig } from '../config/resolved-config.js';
import { RegisteredWorkflows } from '../engine/registered-workflows.js';
import { KeyRingError } from '../keys/key-errors.js';
import { type KeyRing, loadKeyRing } from '../keys/key-ring.js';
import { Counters } from '../observe/counters.js';
import { createLog, type Log } from '../observe/log.js';
import { PostgresRegistry } from '../registry/postgres/postgres-registry.js';
import type { Database } from '../storage/database.js';
import type { ErasureDependencies } from '../workflows/erasure/dependencies.js';
import { requireOpeningKeys } from '../workflows/erasure/sealed-subjects.js';
import { OpenTargets } from '../workflows/erasure/open-targets.js';
import { erasure } from '../workflows/erasure/workflow.js';
import { userDeletion } from '../workflows/user-deletion/workflow.js';
import { erasureSettings, tenantOf } from './erasure-settings.js';
import type { BatchLine, BatchSource } from './batch-source.js';
import { Batches, type ShownBatch } from './batches.js';
import type { Identifiers } from './deletable-subject.js';
import { Erasures, type RevisedErasure, type SubmitOptions, type SubmittedErasure } from './erasures.js';
import type { DeletionRequest, DeletionTarget } from './public-status.js';
import type { StatusAnswer } from '../registry/registry.js';
import type { ErasureInventory } from '../workflows/erasure/inventory.js';
import { openDatabase } from './open-database.js';
import { DeletionRecord } from './record.js';
import { StandingApprovals } from './standing-approvals.js';
import { BatchSubmission, type SubmitManyOptions } from './submit-batch.js';
import { type RecordedErasure, SubmitLater, type SubmitLaterOptions } from './submit-later.js';
import type { SubjectKeys } from './subject-as-operator.js';
import { submitUserDeletion, type SubmittedUserDeletion, type UserDeletionInput } from './user-deletions.js';

export interface ClientOptions {
  readonly log?: Log;
  /** Rows, objects or keys that one call to a target erases at most; 50,000 by default. Fewer where a store is slow. */
  readonly sliceRows?: number;
}

/** @see createClient */
export class Client {
  /** What can be done with requests of any workflow. */
  readonly requests: DeletionRecord;
  /** What can be done with batches, which `submitMany` makes. */
  readonly batches: Batches;
  /** Approvals that stand for requests to come. */
  readonly standingApprovals: StandingApprovals;
  /** What everything that this client runs has counted. */
  readonly counters: Counters;
  readonly #database: Database;
  readonly #targets: OpenTargets;
  readonly #erasures: Erasures;
  readonly #later: SubmitLater;
  readonly #submission: BatchSubmission;

  constructor(config: ResolvedConfig, database: Database, ring: KeyRing | null, log: Log, sliceRows?: number) {
    this.#database = database;
    this.#targets = new OpenTargets(config.targets);
    this.counters = new Counters();
    const deps = dependencies(config, database, ring, log, this.counters, this.#targets, sliceRows);
    const subjectKeys = subjectKeysOf(config, ring);
    const workflows = [userDeletion(), erasure(deps)];
    const checks = {
      ...(subjectKeys === null ? {} : { subjectKeys }),
      requireKeys: (id: string) => requireOpeningKeys(database, () => deps.ring, id),
    };
    this.requests = new DeletionRecord(database, log, workflows, checks, this.counters);
    this.batches = new Batches(database, {
      cancelOne: (order) => this.requests.cancel(order),
      registered: new RegisteredWorkflows(workflows),
      subjectKeys,
      mostCopies: config.bounds.batch,
    });
    this.#erasures = new Erasures(config, deps, subjectKeys);
    this.standingApprovals = new StandingApprovals(deps);
    this.#later = new SubmitLater(config, database, () => deps.ring);
    this.#submission = new BatchSubmission(config, deps);
  }

  /** A training request, which touches nothing real. @throws DemoTargetError, RequestRefusedError */
  submitUserDeletion(input: UserDeletionInput): Promise<SubmittedUserDeletion> {
    return submitUserDeletion(this.#database, input);
  }

  /**
   * Records the deletion of a subject: what is there is counted, identifiers are sealed, and nothing is deleted before
   * somebody else has approved the digest.
   * @throws InvalidSubjectError, ProtectedSubjectError, BoundsExceededError, TargetDeclarationError, TargetUnreachableError,
   *   RequestRefusedError LIVE_REQUEST_EXISTS or IDEMPOTENCY_CONFLICT; nothing was changed then.
   */
  submit(
    identifiers: Identifiers,
    options: SubmitOptions & { readonly count?: 'now'; readonly tx?: never },
  ): Promise<SubmittedErasure>;
  /**
   * Records it with `count: 'later'`, for applications: no target is opened, and a client's key file and `targets: {}` are enough.
   * A worker counts, and the request waits for approval then. With `tx` it is recorded in the application's own transaction,
   * and exists exactly if that commits. Refusals are answers and no failed statements: the transaction can go on after them.
   * Beyond READ COMMITTED, PostgreSQL itself fails a submit that meets another one's (40001).
   * @throws InvalidSubjectError, ProtectedSubjectError, TransactionRequiredError, RequestRefusedError as above.
   */
  submit(identifiers: Identifiers, options: SubmitLaterOptions): Promise<RecordedErasure>;
  submit(
    identifiers: Identifiers,
    options: (SubmitOptions & { readonly count?: 'now' }) | SubmitLaterOptions,
  ): Promise<SubmittedErasure | RecordedErasure> {
    return options.count === 'later'
      ? this.#later.submit(identifiers, options)
      : this.#erasures.submit(identifiers, options);
  }

  /**
   * Records the deletion of many subjects as one batch, which is approved by one digest. Interrupted at any moment, the same call
   * goes on where it was; repeated, it answers with the same batch. A subject that may not be deleted is recorded as `blocked`
   * with its reason, and stops no other; one that has a live request is left out. Memory does not grow with the subjects.
   *
   * @param subjects - begins anew each time it is called: all are checked before the first is recorded.
   * @throws InvalidBatchError naming the first subjects, by their number, that cannot be used, and nothing was recorded;
   *   BatchChangedError where they were others the second time; RequestRefusedError BOUNDS_EXCEEDED; and as `submit` where a
   *   target does not answer. The batch stays open then, and the same call goes on.
   */
  submitMany(
    subjects: () => AsyncIterable<Identifiers> | Iterable<Identifiers>,
    options: SubmitManyOptions,
  ): Promise<ShownBatch> {
    return this.submitLines(() => numbered(subjects()), options);
  }

  /** The same for a source that knows its lines. @see submitMany */
  submitLines(source: BatchSource, options: SubmitManyOptions): Promise<ShownBatch> {
    return this.#submission.submit(source, options);
  }

  /** Checks every line as `submitLines` does first, and records nothing. @throws InvalidBatchError */
  async checkLines(source: BatchSource, options: Pick<SubmitManyOptions, 'onProgress'> = {}): Promise<number> {
    return (await this.#submission.check(source, options)).lines;
  }

  /** What `submit` would ask approval for, without recording anything. @throws as `submit` */
  preview(identifiers: Identifiers): Promise<ErasureInventory> {
    return this.#erasures.preview(identifiers);
  }

  /** One deletion in the words of the public type (WF-0). @throws RequestRefusedError UNKNOWN_REQUEST */
  get<T extends string = DeletionTarget>(requestId: string): Promise<DeletionRequest<T>> {
    return this.#erasures.get<T>(requestId);
  }

  /** What the registry says of a subject (REG-1). @throws InvalidSubjectError */
  status(identifiers: Identifiers): Promise<StatusAnswer> {
    return this.#erasures.status(identifiers);
  }

  /** A new revision of a request's inventory, counted now, for a new approval (WF-6). Needs the worker's key file. */
  revise(requestId: string, by: string): Promise<RevisedErasure> {
    return this.#erasures.revise(requestId, by);
  }

  /** The signed receipts of a request, for `expunge receipts verify`. @throws RequestRefusedError UNKNOWN_REQUEST */
  exportReceipts(requestId: string): Promise<string> {
    return this.#erasures.exportReceipts(requestId);
  }

  async close(): Promise<void> {
    await this.#targets.close();
    await this.#database.close();
  }
}

async function* numbered(subjects: AsyncIterable<Identifiers> | Iterable<Identifiers>): AsyncGenerator<BatchLine> {
  let position = 0;
  for await (const identifiers of subjects) yield { position: (position += 1), identifiers };
}

/**
 * Opens the database and the key ring of a configuration. Targets are opened when they are first needed.
 *
 * @example
 * const client = await createClient(config);
 * const { id, inventory_digest } = await client.submit({ customerId: '42' }, { requestedBy: 'operator-a' });
 * await client.requests.approve({ requestId: id, approvedBy: 'operator-b', inventoryDigest: inventory_digest });
 * await client.close();
 *
 * @throws DatabaseUnavailableError, SchemaVersionError, EmbeddedDatabaseError, KeyRingError
 */
export async function createClient(config: ResolvedConfig, options: ClientOptions = {}): Promise<Client> {
  const ring = config.keys === null ? null : await loadKeyRing(config.keys.file);
  const database = await openDatabase(config.database);
  return new Client(config, database, ring, options.log ?? createLog(), options.sliceRows);
}

function subjectKeysOf(config: ResolvedConfig, ring: KeyRing | null): SubjectKeys | null {
  if (config.subject === null || ring === null) return null;
  const { key, identifiers } = config.subject;
  const declaration = identifiers[key];
  return declaration === undefined ? null : { ring, tenant: tenantOf(config), key, declaration };
}

/** Only what needs the ring finds out that there is none: training, lists and approvals go without. */
function dependencies(
  config: ResolvedConfig,
  database: Database,
  ring: KeyRing | null,
  log: Log,
  counters: Counters,
  targets: OpenTargets,
  sliceRows: number | undefined,
): ErasureDependencies {
  return {
    database,
    settings: erasureSettings(config, sliceRows),
    get ring(): KeyRing {
      if (ring !== null) return ring;
      throw new KeyRingError(
        'No key ring is configured: set keys.file in the configuration to a key file, which expunge init writes.',
      );
    },
    registry: new PostgresRegistry({ database, log, counters }),
    targets,
    log,
    counters,
  };
}
