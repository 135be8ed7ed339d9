/** What can be done with a request of any workflow: the operator's verbs. */
import { RegisteredWorkflows } from '../engine/registered-workflows.js';
import { inChainOrder } from '../engine/history.js';
import { type RunOptions, runOne } from '../engine/run-one.js';
import { work, type WorkerOptions } from '../engine/worker.js';
import type { RunEnd } from '../engine/advance.js';
import type { Workflow } from '../engine/workflow.js';
import type { Log } from '../observe/log.js';
import { approve, type ApprovalResult } from '../requests/approve.js';
import { appendEvents, type EventRow } from '../requests/events.js';
import { operatorName } from '../requests/operator.js';
import { cancel, endHold, hold, type OrderResult, unblock } from '../requests/orders.js';
import { type ListOptions, listRequests, readApprovals, readEvents } from '../requests/read.js';
import type { ApprovalRow, InventoryRow, OrderRow, RequestRow, StageRow } from '../requests/request.js';
import { findExpungeError } from '../observe/expunge-error.js';
import { RequestRefusedError, unknownRequest } from '../requests/request-error.js';
import { readSnapshot } from '../requests/snapshot.js';
import type { Database } from '../storage/database.js';
import { storableText } from '../storage/storable.js';

export interface OrderInput {
  readonly requestId: string;
  readonly by: string;
  /** About operations, not about people; at most 500 bytes are kept, and erased when the request ends. */
  readonly reason: string;
}

export interface ShownRequest {
  readonly request: RequestRow;
  readonly inventories: readonly InventoryRow[];
  readonly approvals: readonly ApprovalRow[];
  /** In the order of the chain. */
  readonly stages: readonly StageRow[];
  readonly orders: readonly OrderRow[];
  readonly events: readonly EventRow[];
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export class DeletionRecord {
  readonly #database: Database;
  readonly #log: Log;
  readonly #workflows: readonly Workflow[];

  constructor(database: Database, log: Log, workflows: readonly Workflow[]) {
    this.#database = database;
    this.#log = log;
    this.#workflows = workflows;
  }

  /** @throws RequestRefusedError as OP-3 lists. */
  approve(input: { requestId: string; approvedBy: string; inventoryDigest: string }): Promise<ApprovalResult> {
    return this.#recorded(input.requestId, input.approvedBy, (requestId) => {
      const approval = { ...input, requestId, approvedBy: operatorName('--approved-by', input.approvedBy) };
      const registered = this.#registered();
      return this.#database.transaction((tx) =>
        approve(tx, approval, (request, inventory) => {
          registered.verifyInventory(request, inventory);
        }),
      );
    });
  }

  /**
   * Runs one request as far as it goes.
   * @param workflows - replaces the client's workflows of the same name, for a rehearsal.
   */
  run(
    requestId: string,
    options: Omit<RunOptions, 'database' | 'workflows' | 'log'>,
    workflows: readonly Workflow[] = [],
  ): Promise<RunEnd> {
    return this.#recorded(requestId, options.executorId, (id) =>
      runOne(id, {
        ...options,
        executorId: operatorName('--executor-id', options.executorId),
        database: this.#database,
        log: this.#log,
        workflows: this.#registered(workflows),
      }),
    );
  }

  /** Claims and runs what is due until the signal, or once through. */
  work(options: Omit<WorkerOptions, 'database' | 'workflows' | 'log'>): Promise<void> {
    return work({ ...options, database: this.#database, log: this.#log, workflows: this.#registered() });
  }

  list(options: ListOptions): Promise<readonly RequestRow[]> {
    return listRequests(this.#database, options);
  }

  /** @throws RequestRefusedError UNKNOWN_REQUEST */
  async show(requestId: string): Promise<ShownRequest> {
    const id = idOf(requestId);
    const snapshot = await readSnapshot(this.#database, id);
    if (snapshot === null) throw unknownRequest(id);
    return {
      request: snapshot.request,
      inventories: snapshot.inventories,
      approvals: await readApprovals(this.#database, id),
      stages: inChainOrder(snapshot.stages),
      orders: snapshot.orders,
      events: await readEvents(this.#database, id),
    };
  }

  /** @throws RequestRefusedError POINT_OF_NO_RETURN and others (OP-9). */
  cancel(input: OrderInput): Promise<OrderResult> {
    const registered = this.#registered();
    return this.#order(input, (tx, order) =>
      cancel(
        tx,
        order,
        (snapshot) => {
          registered.requireCancellable(snapshot);
        },
        registered,
      ),
    );
  }

  hold(input: OrderInput & { readonly until: Date | null }): Promise<OrderResult> {
    return this.#order(input, (tx, order) => hold(tx, order, input.until));
  }

  endHold(input: { readonly requestId: string; readonly by: string }): Promise<OrderResult> {
    return this.#recorded(input.requestId, input.by, (id) => {
      const endedBy = operatorName('--by', input.by);
      return this.#database.transaction((tx) => endHold(tx, id, endedBy));
    });
  }

  unblock(input: OrderInput): Promise<OrderResult> {
    return this.#order(input, unblock);
  }

  #order(
    { requestId, by, reason }: OrderInput,
    give: (tx: Parameters<typeof unblock>[0], order: Parameters<typeof unblock>[1]) => Promise<OrderResult>,
  ): Promise<OrderResult> {
    return this.#recorded(requestId, by, (id) => {
      const order = { requestId: id, orderedBy: operatorName('--by', by), reason: reasonText(reason, id) };
      return this.#database.transaction((tx) => give(tx, order));
    });
  }

  #registered(instead: readonly Workflow[] = []): RegisteredWorkflows {
    return new RegisteredWorkflows([...this.#workflows, ...instead]);
  }

  /** A refusal changes nothing but the event log, which says that it happened (OP-10). */
  async #recorded<T>(requestId: string, actor: string, work: (id: string) => Promise<T>): Promise<T> {
    const id = idOf(requestId);
    try {
      return await work(id);
    } catch (error) {
      const refusal = findExpungeError(error);
      if (refusal?.outcome === 'refused' && !UNRECORDED.has(refusal.code)) {
        await appendEvents(this.#database, [
          { request_id: id, event: 'refused', actor: storableText(actor, 200), detail: { code: refusal.code } },
        ]);
      }
      throw error;
    }
  }
}

/** There is nothing to record them at, or nobody to record. */
const UNRECORDED: ReadonlySet<string> = new Set(['UNKNOWN_REQUEST', 'INVALID_OPERATOR']);

/** As the database writes it: rows are found in memory by what the database answered. */
function idOf(requestId: string): string {
  if (UUID.test(requestId)) return requestId.toLowerCase();
  throw new RequestRefusedError('UNKNOWN_REQUEST', 'That is no request id: expunge list shows those that exist.');
}

function reasonText(reason: string, requestId: string): string {
  if (reason.trim() !== '') return reason.trim();
  throw new RequestRefusedError(
    'INVALID_ORDER',
    `The order about request ${requestId} has no reason: give one with --reason.`,
    requestId,
  );
}
