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
import { RequestRefusedError, unknownRequest } from '../requests/request-error.js';
import { readSnapshot } from '../requests/snapshot.js';
import type { Database } from '../storage/database.js';

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
    return this.#recorded(input.requestId, input.approvedBy, () => {
      const approval = { ...input, approvedBy: operatorName('--approved-by', input.approvedBy) };
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
    return this.#recorded(requestId, options.executorId, () =>
      runOne(requestId, {
        ...options,
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
    requireId(requestId);
    const snapshot = await readSnapshot(this.#database, requestId);
    if (snapshot === null) throw unknownRequest(requestId);
    return {
      request: snapshot.request,
      inventories: snapshot.inventories,
      approvals: await readApprovals(this.#database, requestId),
      stages: inChainOrder(snapshot.stages),
      orders: snapshot.orders,
      events: await readEvents(this.#database, requestId),
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
    return this.#recorded(input.requestId, input.by, () =>
      this.#database.transaction((tx) => endHold(tx, input.requestId, operatorName('--by', input.by))),
    );
  }

  unblock(input: OrderInput): Promise<OrderResult> {
    return this.#order(input, unblock);
  }

  #order(
    { requestId, by, reason }: OrderInput,
    give: (tx: Parameters<typeof unblock>[0], order: Parameters<typeof unblock>[1]) => Promise<OrderResult>,
  ): Promise<OrderResult> {
    return this.#recorded(requestId, by, () => {
      const order = { requestId, orderedBy: operatorName('--by', by), reason: reasonText(reason, requestId) };
      return this.#database.transaction((tx) => give(tx, order));
    });
  }

  #registered(instead: readonly Workflow[] = []): RegisteredWorkflows {
    return new RegisteredWorkflows([...this.#workflows, ...instead]);
  }

  /** A refusal changes nothing but the event log, which says that it happened (OP-10). */
  async #recorded<T>(requestId: string, actor: string, work: () => Promise<T>): Promise<T> {
    requireId(requestId);
    try {
      return await work();
    } catch (error) {
      if (error instanceof RequestRefusedError && error.requestId !== null && error.code !== 'INVALID_OPERATOR') {
        await appendEvents(this.#database, [
          { request_id: error.requestId, event: 'refused', actor: actor.slice(0, 200), detail: { code: error.code } },
        ]);
      }
      throw error;
    }
  }
}

function requireId(requestId: string): void {
  if (!UUID.test(requestId))
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
