/** What can be done with a request of any workflow: the operator's verbs. */
import { RegisteredWorkflows } from '../engine/registered-workflows.js';
import { inChainOrder } from '../engine/history.js';
import { type RunOptions, runOne } from '../engine/run-one.js';
import { work, type WorkerOptions } from '../engine/worker.js';
import type { RunEnd } from '../engine/advance.js';
import type { Workflow } from '../engine/workflow.js';
import { type Counters, counters as processCounters } from '../observe/counters.js';
import type { Log } from '../observe/log.js';
import { approve, type ApprovalResult } from '../requests/approve.js';
import type { EventRow } from '../requests/events.js';
import { operatorName } from '../requests/operator.js';
import { cancel, endHold, hold, type OrderResult, unblock } from '../requests/orders.js';
import { type ListOptions, listRequests, readApprovals, readEvents, readRequest } from '../requests/read.js';
import type { ApprovalRow, InventoryRow, OrderRow, RequestRow, StageRow } from '../requests/request.js';
import { RequestRefusedError, unknownRequest } from '../requests/request-error.js';
import { readSnapshot } from '../requests/snapshot.js';
import type { Database } from '../storage/database.js';
import { recordRefusal } from './refusals.js';
import { requestIdOf } from './request-id.js';
import { isSubjectKey, isTheSubject, type SubjectKeys } from './subject-as-operator.js';

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

/** What can be checked with keys, where there are some. */
export interface RecordChecks {
  /** Tells an operator from the subject. */
  readonly subjectKeys?: SubjectKeys;
  /**
   * Whether a run could open the request. An operator with the wrong key file is told so before anything is claimed; a worker
   * blocks the request (WF-3).
   * @throws MissingKeyError, KeyRingError
   */
  requireKeys?(requestId: string): Promise<void>;
}

export class DeletionRecord {
  readonly #database: Database;
  readonly #log: Log;
  readonly #workflows: readonly Workflow[];
  readonly #checks: RecordChecks;
  readonly #counters: Counters;

  /** @param counters - where its runs count; the process's own by default. */
  constructor(
    database: Database,
    log: Log,
    workflows: readonly Workflow[],
    checks: RecordChecks = {},
    counters: Counters = processCounters,
  ) {
    this.#database = database;
    this.#log = log;
    this.#workflows = workflows;
    this.#checks = checks;
    this.#counters = counters;
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
    options: Omit<RunOptions, 'database' | 'workflows' | 'log' | 'counters'>,
    workflows: readonly Workflow[] = [],
  ): Promise<RunEnd> {
    return this.#recorded(requestId, options.executorId, async (id) => {
      await this.#checks.requireKeys?.(id);
      return runOne(id, {
        ...options,
        executorId: operatorName('--executor-id', options.executorId),
        database: this.#database,
        log: this.#log,
        counters: this.#counters,
        workflows: this.#registered(workflows),
      });
    });
  }

  /** Claims and runs what is due until the signal, or once through. */
  work(options: Omit<WorkerOptions, 'database' | 'workflows' | 'log' | 'counters'>): Promise<void> {
    return work({
      ...options,
      database: this.#database,
      log: this.#log,
      counters: this.#counters,
      workflows: this.#registered(),
    });
  }

  list(options: ListOptions): Promise<readonly RequestRow[]> {
    return listRequests(this.#database, options);
  }

  /** @throws RequestRefusedError UNKNOWN_REQUEST */
  async show(requestId: string): Promise<ShownRequest> {
    const id = requestIdOf(requestId);
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

  async #recorded<T>(requestId: string, actor: string, work: (id: string) => Promise<T>): Promise<T> {
    const id = requestIdOf(requestId);
    return recordRefusal(this.#database, id, actor, async () => {
      await this.#refuseSubject(id, actor);
      return work(id);
    });
  }

  /** Who gives an order about a deletion stays in the record; whom it is about does not (WF-2). */
  async #refuseSubject(requestId: string, name: string): Promise<void> {
    const { subjectKeys } = this.#checks;
    if (subjectKeys === undefined) return;
    const reference = (await readRequest(this.#database, requestId))?.subject_reference ?? null;
    if (reference !== null && isSubjectKey(name, reference, subjectKeys)) throw isTheSubject(requestId);
  }
}

function reasonText(reason: string, requestId: string): string {
  if (reason.trim() !== '') return reason.trim();
  throw new RequestRefusedError(
    'INVALID_ORDER',
    `The order about request ${requestId} has no reason: give one with --reason.`,
    requestId,
  );
}
