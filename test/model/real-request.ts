/** The same request in a database: every operation of the record, and its rows in the words of the model. */
import { sql } from 'kysely';
import { v7 as uuidv7 } from 'uuid';
import { RegisteredWorkflows } from '../../src/engine/registered-workflows.js';
import { runOne } from '../../src/engine/run-one.js';
import type { Outcome as HandlerOutcome, Workflow } from '../../src/engine/workflow.js';
import { approve } from '../../src/requests/approve.js';
import { block } from '../../src/requests/block.js';
import { claimDue, claimOne } from '../../src/requests/claim.js';
import {
  cancel,
  endDueHold,
  endDueHolds,
  endHold,
  hold,
  type OrderResult,
  unblock,
} from '../../src/requests/orders.js';
import { goOn, withSaved } from '../../src/requests/go-on.js';
import type { TransitionResult } from '../../src/requests/move.js';
import { release } from '../../src/requests/release.js';
import { renew } from '../../src/requests/renew.js';
import type { Lease } from '../../src/requests/request.js';
import { RequestRefusedError } from '../../src/requests/request-error.js';
import { saveOutcomes, type SavedOutcome } from '../../src/requests/save-outcomes.js';
import { saveProgress } from '../../src/requests/save-progress.js';
import type { Snapshot } from '../../src/requests/snapshot.js';
import { startStages } from '../../src/requests/start-stages.js';
import { submit } from '../../src/requests/submit.js';
import { transition } from '../../src/requests/transition.js';
import type { Database, Queries } from '../../src/storage/database.js';
import type { JsonObject } from '../../src/storage/json.js';
import { makeDue, readableLog } from '../support/record.js';
import { type Outcome, ENGINE, type Worker } from './request-model.js';
import { digestOf, laundry } from './laundry.js';
import { readRows, type Rows } from './rows.js';

/** What is tested; a test of the model itself puts a broken one in the place of one of them. */
export const operations = {
  approve,
  block,
  cancel,
  claimDue,
  claimOne,
  endDueHold,
  endDueHolds,
  endHold,
  goOn,
  hold,
  release,
  renew,
  runOne,
  saveOutcomes,
  saveProgress,
  startStages,
  submit,
  transition,
  unblock,
};
export type Operations = typeof operations;

interface Memory {
  readonly lease: Lease;
  stageId: string | null;
  hasSaved: boolean;
  /** What the database has said under this lease, with what was saved since; null where an order may stand. */
  known: Snapshot | null;
}

export class RealRequest {
  readonly #database: Database;
  readonly #do: Operations;
  readonly #id: string;
  readonly #memories = new Map<Worker, Memory>();
  #inventory: JsonObject = { version: 1, revision: 1 };

  private constructor(database: Database, ops: Operations, id: string) {
    this.#database = database;
    this.#do = ops;
    this.#id = id;
  }

  static async submit(database: Database, ops: Operations, approvalsRequired: number): Promise<RealRequest> {
    const request = new RealRequest(database, ops, uuidv7());
    await request.#submit(request.#id, approvalsRequired);
    return request;
  }

  rows(): Promise<Rows> {
    return readRows(this.#database, this.#id);
  }

  /** Out of the way of the next run, which claims what is due. */
  async close(): Promise<void> {
    const { db, t } = this.#database;
    await sql`
      UPDATE ${t.requests}
         SET status = 'cancelled', held_status = NULL, lease_owner = NULL, lease_expires_at = NULL
       WHERE subject_reference = ${this.#subject}::text AND status NOT IN ('completed', 'cancelled')`.execute(db);
  }

  // --- Time

  expire = async (): Promise<string> => {
    const { db, t } = this.#database;
    await sql`
      UPDATE ${t.requests} SET lease_expires_at = clock_timestamp() - interval '1 ms'
       WHERE id = ${this.#id}::uuid AND lease_expires_at > clock_timestamp()`.execute(db);
    return 'expired';
  };

  becomeDue = async (): Promise<string> => {
    await makeDue(this.#database, this.#id);
    return 'due';
  };

  holdTimeComes = async (): Promise<string> => {
    const { db, t } = this.#database;
    await sql`
      UPDATE ${t.orders} SET until = clock_timestamp() - interval '1 ms'
       WHERE request_id = ${this.#id}::uuid AND kind = 'hold' AND ended_at IS NULL`.execute(db);
    return 'over';
  };

  almostBlocked = async (failures: number): Promise<string> => {
    const { db, t } = this.#database;
    await sql`UPDATE ${t.requests} SET retry_count = ${failures} WHERE id = ${this.#id}::uuid`.execute(db);
    return 'counted';
  };

  // --- Operators

  submitAgain = async (): Promise<string> => (await this.#submit(uuidv7(), 1))[0]?.kind ?? 'nothing';

  approve = (approvedBy: string): Promise<string> =>
    codeOr(async () => {
      const approval = { requestId: this.#id, approvedBy, inventoryDigest: digestOf(this.#inventory) };
      return (await this.#inTransaction((tx) => this.#do.approve(tx, approval, () => undefined))).status;
    });

  cancel = (): Promise<string> =>
    this.#order((tx) =>
      this.#do.cancel(tx, this.#by, (snapshot) => this.#rules.requireCancellable(snapshot), this.#rules),
    );

  hold = (): Promise<string> => this.#order((tx) => this.#do.hold(tx, this.#by, new Date(Date.now() + 86_400_000)));

  endHold = (): Promise<string> => this.#order((tx) => this.#do.endHold(tx, this.#id, 'operator-c'));

  unblock = (): Promise<string> => this.#order((tx) => this.#do.unblock(tx, this.#by));

  // --- Workers

  claim = (worker: Worker): Promise<string> =>
    codeOr(async () => {
      const { lease } = await this.#inTransaction(async (tx) => {
        await this.#do.endDueHold(tx, this.#id);
        return this.#do.claimOne(tx, this.#id, worker);
      });
      return this.#remember(worker, lease);
    });

  claimDue = async (worker: Worker): Promise<string> => {
    await this.#inTransaction(this.#do.endDueHolds);
    const workflows = [{ workflow: laundry.name, version: laundry.version }];
    const [claimed] = await this.#do.claimDue(this.#database, { owner: worker, limit: 1, workflows, except: [] });
    return claimed === undefined ? 'nothing' : this.#remember(worker, claimed.lease);
  };

  renew = async (worker: Worker): Promise<string> => {
    const { lease } = this.#memoryOf(worker);
    const { renewed } = await this.#do.renew(this.#database, [lease]);
    return renewed.has(this.#id) ? 'renewed' : 'lost';
  };

  release = async (worker: Worker): Promise<string> => {
    const released = await this.#do.release(this.#database, [this.#memoryOf(worker).lease]);
    return released.has(this.#id) ? 'released' : 'stale';
  };

  block = async (worker: Worker): Promise<string> => {
    const blocked = await this.#do.block(this.#database, [{ lease: this.#memoryOf(worker).lease, reason: 'MISFIT' }]);
    return blocked.has(this.#id) ? 'blocked' : 'stale';
  };

  start = async (worker: Worker): Promise<string> => {
    const results = await this.#do.startStages(this.#database, [this.#stageOf(worker)]);
    return results.get(this.#id) ?? 'nothing';
  };

  saveProgress = async (worker: Worker): Promise<string> => {
    const results = await this.#do.saveProgress(this.#database, [{ ...this.#stageOf(worker), intent: { of: worker } }]);
    return results.get(this.#id) ?? 'nothing';
  };

  save = async (worker: Worker, outcome: Outcome): Promise<string> => {
    const rows = [{ ...this.#stageOf(worker), outcome: this.#handlerOutcome(outcome) }];
    const result = (await this.#do.saveOutcomes(this.#database, rows)).get(this.#id);
    if (result === undefined) return 'stale';
    const memory = this.#memoryOf(worker);
    if (!result.released) memory.hasSaved = true;
    const { known, stageId } = memory;
    const isPlain = known !== null && stageId !== null && result.standing_order === null;
    memory.known = isPlain ? withSaved(known, stageId, result) : null;
    await this.#learnRevision();
    return `${result.released ? 'released' : 'kept'} ${result.status}`;
  };

  /** As the engine does: from what is known where it can, else with the request locked. */
  transition = async (worker: Worker, remembers: boolean, begins: boolean): Promise<string> => {
    const memory = this.#memoryOf(worker);
    const { lease, stageId, hasSaved, known } = memory;
    const expectedStageId = remembers && hasSaved ? stageId : null;
    if (expectedStageId !== null && known !== null) {
      const item = { lease, stageId: expectedStageId, known, begins };
      const result = (await this.#do.goOn(this.#database, [item], this.#rules)).get(this.#id);
      if (result !== undefined) return this.#afterTransition(memory, result);
    }
    const item = { requestId: this.#id, lease, expectedStageId, begins };
    const results = await this.#inTransaction((tx) => this.#do.transition(tx, [item], this.#rules));
    return this.#afterTransition(memory, results.get(this.#id) as TransitionResult);
  };

  /** One handler call by the engine; `during` happens while the handler runs. */
  run = (outcome: Outcome, during: () => Promise<void>): Promise<string> =>
    codeOr(async () => {
      const end = await this.#do.runOne(this.#id, {
        database: this.#database,
        workflows: new RegisteredWorkflows([
          this.#workflowWith(async () => {
            await during();
            return this.#handlerOutcome(outcome);
          }),
        ]),
        log: readableLog().log,
        signal: new AbortController().signal,
        executorId: ENGINE,
        budget: 1,
      });
      await this.#learnRevision();
      if (end.kind === 'error') return (end.error as { code: string }).code;
      return 'status' in end ? `${end.kind} ${end.status}` : end.kind;
    });

  // --- Within

  get #subject(): string {
    return `subject-${this.#id}`;
  }

  get #by() {
    return { requestId: this.#id, orderedBy: 'operator-c', reason: 'asked to' };
  }

  readonly #rules = new RegisteredWorkflows([laundry]);

  #workflowWith(answer: () => Promise<HandlerOutcome>): Workflow {
    const handler: Workflow['handlers'][string] = async (runs) => ({
      outcomes: new Map([[runs[0]?.request.id ?? '', await answer()]]),
    });
    const handlers = Object.fromEntries(Object.keys(laundry.handlers).map((stage) => [stage, handler]));
    return { ...laundry, handlers };
  }

  #afterTransition(memory: Memory, result: TransitionResult): string {
    switch (result.kind) {
      case 'current':
        memory.stageId = result.stage.id;
        memory.hasSaved = false;
        memory.known = result.snapshot;
        return `current ${result.stage.stage} ${result.stage.status}`;
      case 'error':
        return (result.error as { code: string }).code;
      case 'stale':
        return 'stale';
      default:
        return `${result.kind} ${result.status}`;
    }
  }

  #inTransaction<T>(work: (tx: Queries) => Promise<T>): Promise<T> {
    return this.#database.transaction(work);
  }

  #order(work: (tx: Queries) => Promise<OrderResult>): Promise<string> {
    return codeOr(async () => {
      const { status, pending_with } = await this.#inTransaction(work);
      return `${pending_with === null ? 'done' : 'pending'} ${status}`;
    });
  }

  #submit(id: string, approvalsRequired: number) {
    return this.#inTransaction((tx) =>
      this.#do.submit(tx, [
        {
          id,
          workflow: laundry.name,
          workflowVersion: laundry.version,
          target: null,
          subjectReference: this.#subject,
          inventory: this.#inventory,
          inventoryDigest: digestOf(this.#inventory),
          requestedBy: 'operator-a',
          reasonCode: null,
          idempotencyKey: null,
          approvalsRequired,
          dueAt: null,
          sealed: [],
        },
      ]),
    );
  }

  #remember(worker: Worker, lease: Lease): string {
    this.#memories.set(worker, { lease, stageId: null, hasSaved: false, known: null });
    return `generation ${lease.generation}`;
  }

  #memoryOf(worker: Worker): Memory {
    const memory = this.#memories.get(worker);
    if (memory === undefined) throw new Error(`${worker} was told to write before it had claimed.`);
    return memory;
  }

  #stageOf(worker: Worker): { readonly lease: Lease; readonly stageId: string } {
    const { lease, stageId } = this.#memoryOf(worker);
    if (stageId === null) throw new Error(`${worker} was told to work before it had a stage.`);
    return { lease, stageId };
  }

  #handlerOutcome(outcome: Outcome): SavedOutcome {
    switch (outcome.kind) {
      case 'completed':
        return { kind: 'completed', result: { rinse: outcome.rinse, pause: outcome.pause } };
      case 'postponed':
        return { kind: 'postponed', why: 'TUB_IN_USE', delaySeconds: 86_400 };
      case 'failed':
        return { kind: 'failed', error: 'TUB_LEAKS', retryable: outcome.retryable };
      case 'revised': {
        const inventory = { version: 1, revision: Number(this.#inventory['revision']) + 1 };
        return { kind: 'revised', why: 'MORE_LAUNDRY', inventory, inventoryDigest: digestOf(inventory) };
      }
    }
  }

  /** The operators' next approval is of what they are shown. */
  async #learnRevision(): Promise<void> {
    this.#inventory = { version: 1, revision: (await this.rows()).inventories.length };
  }
}

/** What it answers, or the code with which it refuses. */
async function codeOr(work: () => Promise<string>): Promise<string> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof RequestRefusedError) return error.code;
    throw error;
  }
}
