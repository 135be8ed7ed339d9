/** What can be done with a batch once it is submitted: show it, and approve it as one (WF-8). */
import type { RegisteredWorkflows } from '../engine/registered-workflows.js';
import { approveBatch, type BatchApprovalResult } from '../requests/approve-batch.js';
import { readBatch, unknownBatch } from '../requests/batch.js';
import { operatorName } from '../requests/operator.js';
import { RequestRefusedError } from '../requests/request-error.js';
import { type BatchStanding, readLiveMembers, readStanding } from '../requests/read-batches.js';
import type { BatchRow } from '../requests/batch.js';
import type { Database } from '../storage/database.js';
import { recordRefusal } from './refusals.js';
import { requestIdOf } from './request-id.js';
import { referencesOf, type SubjectKeys } from './subject-as-operator.js';

/** A batch, how its members stand, and the first thousand of those that need a look. */
export type ShownBatch = BatchRow & BatchStanding;

const TOLD_MEMBERS = 1_000;

type Counts = Pick<BatchCancelResult, 'cancelled' | 'past_return'>;

/** What a cancel did to the members that had not ended. */
export interface BatchCancelResult {
  readonly batch_id: string;
  /** Cancelled, or to be cancelled by the worker that owns them. */
  readonly cancelled: number;
  /** Something of them is deleted already: they will be finished. */
  readonly past_return: number;
}

/** Cancels that are under way at once. */
const CANCELS_AT_ONCE = 8;

export interface BatchRules {
  /** Cancels one request. @throws RequestRefusedError */
  readonly cancelOne: (order: { requestId: string; by: string; reason: string }) => Promise<unknown>;
  readonly registered: RegisteredWorkflows;
  /** Null where no key ring is configured. */
  readonly subjectKeys: SubjectKeys | null;
  /** What one batch may delete in all (WF-9). */
  readonly mostCopies: number;
}

export class Batches {
  readonly #database: Database;
  readonly #rules: BatchRules;

  constructor(database: Database, rules: BatchRules) {
    this.#database = database;
    this.#rules = rules;
  }

  /** Whether the id is a batch's; it has the form of a request's. */
  async has(id: string): Promise<boolean> {
    return (await readBatch(this.#database, requestIdOf(id))) !== null;
  }

  /** @throws RequestRefusedError UNKNOWN_REQUEST */
  async show(batchId: string): Promise<ShownBatch> {
    return describeBatch(this.#database, requestIdOf(batchId));
  }

  /**
   * Gives up every member that has not ended, one after the other; those past their point of no return are finished. Repeated
   * after an interruption, it goes on.
   * @throws RequestRefusedError UNKNOWN_REQUEST, or what an order of this operator is refused for.
   */
  async cancel(input: { batchId: string; by: string; reason: string }): Promise<BatchCancelResult> {
    const batchId = requestIdOf(input.batchId);
    if ((await readBatch(this.#database, batchId)) === null) throw unknownBatch(batchId);
    const counts = { cancelled: 0, past_return: 0 };
    for await (const ids of readLiveMembers(this.#database, batchId)) {
      for (let first = 0; first < ids.length; first += CANCELS_AT_ONCE) {
        const some = ids.slice(first, first + CANCELS_AT_ONCE);
        for (const word of await Promise.all(some.map((requestId) => this.#cancelOne({ ...input, requestId })))) {
          if (word !== null) counts[word] += 1;
        }
      }
    }
    return { batch_id: batchId, ...counts };
  }

  /** Null where it ended, or somebody else cancelled it, in the meantime. */
  async #cancelOne(order: { requestId: string; by: string; reason: string }): Promise<keyof Counts | null> {
    try {
      const { requestId, by, reason } = order;
      await this.#rules.cancelOne({ requestId, by, reason });
      return 'cancelled';
    } catch (error) {
      if (!(error instanceof RequestRefusedError)) throw error;
      if (error.code === 'POINT_OF_NO_RETURN') return 'past_return';
      if (error.code === 'WRONG_STATUS' || error.code === 'ORDER_STANDS') return null;
      throw error;
    }
  }

  /**
   * Approves all members that wait for it, as a second person. Those that are blocked, cancelled or revised are left out.
   * @throws RequestRefusedError as OP-3 lists, and BATCH_OPEN, BOUNDS_EXCEEDED; nothing was changed then.
   */
  async approve(input: { batchId: string; approvedBy: string; digest: string }): Promise<BatchApprovalResult> {
    const batchId = requestIdOf(input.batchId);
    const { registered, subjectKeys, mostCopies } = this.#rules;
    return recordRefusal(this.#database, null, input.approvedBy, () => {
      const approval = {
        batchId,
        approvedBy: operatorName('--approved-by', input.approvedBy),
        digest: input.digest,
        referencesOfApprover: subjectKeys === null ? [] : referencesOf(input.approvedBy, subjectKeys),
        mostCopies,
      };
      return this.#database.transaction((tx) =>
        approveBatch(tx, approval, (batch, { request_id, inventory, inventory_digest }) => {
          registered.verifyInventory(
            { id: request_id, workflow: batch.workflow, workflow_version: batch.workflow_version, target: null },
            { revision: 1, inventory: inventory ?? {}, inventory_digest },
          );
        }),
      );
    });
  }
}

/** @throws RequestRefusedError UNKNOWN_REQUEST */
export async function describeBatch(database: Database, id: string): Promise<ShownBatch> {
  const batch = await readBatch(database, id);
  if (batch === null) throw unknownBatch(id);
  return { ...batch, ...(await readStanding(database, id, TOLD_MEMBERS)) };
}
