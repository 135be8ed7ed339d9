/** The workflows that a program knows, and the rules that they make for the record. */
import { isExpungeError } from '../observe/expunge-error.js';
import type { Queries } from '../storage/database.js';
import type { JsonObject } from '../storage/json.js';
import type { Decision } from '../requests/decision.js';
import type { InventoryRow, RequestIdentity, RequestRow } from '../requests/request.js';
import { RecordIntegrityError, RequestRefusedError } from '../requests/request-error.js';
import type { Ending, TransitionRules } from '../requests/move.js';
import { LONGEST_HISTORY, type Snapshot } from '../requests/snapshot.js';
import { HistoryError, rebuildHistory, tooLong } from './history.js';
import type { PolicyInput, Workflow } from './workflow.js';

export class RegisteredWorkflows implements TransitionRules {
  readonly #workflows: ReadonlyMap<string, Workflow>;
  /** Inventories, as objects, that were found to have their digest. */
  readonly #verified = new WeakMap<JsonObject, string>();

  /** @param workflows - every version of which a request may still live. */
  constructor(workflows: readonly Workflow[]) {
    this.#workflows = new Map(workflows.map((workflow) => [key(workflow.name, workflow.version), workflow]));
  }

  get all(): readonly Workflow[] {
    return [...this.#workflows.values()];
  }

  /** @throws RequestRefusedError UNREGISTERED_VERSION: such a request is left alone (EX-27). */
  of(request: Pick<RequestIdentity, 'id' | 'workflow' | 'workflow_version'>): Workflow {
    const workflow = this.#workflows.get(key(request.workflow, request.workflow_version));
    if (workflow !== undefined) return workflow;
    throw new RequestRefusedError(
      'UNREGISTERED_VERSION',
      `Request ${request.id} is of workflow ${request.workflow} version ${request.workflow_version}, which this program does not have: use the program that has it.`,
      request.id,
    );
  }

  /** The decision that saved history leads to. Verifies digests, the chain and every earlier decision first. */
  decide(snapshot: Snapshot): Decision {
    const { request } = snapshot;
    const workflow = this.of(request);
    // A plan that has changed is no reason to go on against an operator's cancel.
    if (request.standing_order === 'cancel') this.#verifyInventories(snapshot);
    else this.requireRunnable(snapshot);
    // Nothing was counted, and so nothing was ever begun that would have to be undone.
    if (request.inventory_digest === null && request.standing_order === 'cancel') return CANCELLED_UNCOUNTED;
    const history = rebuildHistory(snapshot);
    const last = history.at(-1);
    if (last === undefined && request.status !== 'approved' && request.standing_order !== 'cancel') {
      throw new RecordIntegrityError(
        `Request ${request.id} is ${request.status} and has no stage: a second beginning is never made up, so a person has to look.`,
        request.id,
      );
    }
    const isCancelled = request.standing_order === 'cancel';
    if (last !== undefined && last.status !== 'completed' && !isCancelled) {
      if (!hasHandler(workflow, last.stage)) throw unknownStage(request, last.id, last.stage);
      guarded(request, () => workflow.policy.check(inputOf(snapshot, history, false)));
      return { kind: 'resume' };
    }
    const closed = last === undefined || last.status === 'completed' ? history : closeCancelled(history);
    const decision = guarded(request, () => workflow.policy.decide(inputOf(snapshot, closed, isCancelled)));
    if (decision.kind === 'enter') {
      if (history.length >= LONGEST_HISTORY) throw tooLong(request.id);
      if (!hasHandler(workflow, decision.stage)) throw undecidable(request, decision.stage);
    }
    return withNext(decision, snapshot);
  }

  /** @throws RequestRefusedError POINT_OF_NO_RETURN */
  requireCancellable(snapshot: Snapshot): void {
    const { request } = snapshot;
    const workflow = this.of(request);
    if (request.inventory_digest === null) return;
    this.#verifyInventories(snapshot);
    const history = rebuildHistory(snapshot);
    if (guarded(request, () => workflow.policy.mayCancel(inputOf(snapshot, history, false)))) return;
    throw new RequestRefusedError(
      'POINT_OF_NO_RETURN',
      `Request ${request.id} is past its point of no return: it can be held, and it will be finished.`,
      request.id,
    );
  }

  /**
   * Everything that can be checked before a request is claimed.
   * @throws RequestRefusedError where this program cannot run it as it was approved; RecordIntegrityError where rows do not fit.
   */
  requireRunnable(snapshot: Snapshot): void {
    const { request, inventories, stages } = snapshot;
    const workflow = this.of(request);
    this.#verifyInventories(snapshot);
    const stage = stages.find((row) => row.is_current)?.stage ?? null;
    const current = inventories.find(({ inventory_digest }) => inventory_digest === request.inventory_digest);
    if (current !== undefined) workflow.requireRunnable?.(request, current.inventory, stage);
    // Without a digest it has not been counted yet, and so has no status in which it could be run.
    else if (request.inventory_digest !== null) throw noInventory(request);
  }

  #verifyInventories({ request, inventories }: Snapshot): void {
    for (const inventory of inventories) this.verifyInventory(request, inventory);
  }

  /** Verifies one stored inventory against its digest, as approval does. */
  verifyInventory(request: RequestIdentity, inventory: Omit<InventoryRow, 'request_id'>): void {
    const name = `${request.id} ${inventory.inventory_digest}`;
    if (this.#verified.get(inventory.inventory) === name) return;
    if (this.of(request).digest(request, inventory.inventory) === inventory.inventory_digest) {
      this.#verified.set(inventory.inventory, name);
      return;
    }
    throw new RecordIntegrityError(
      `Revision ${inventory.revision} of the inventory of request ${request.id} does not have its stored digest: a person has to look.`,
      request.id,
    );
  }

  async end(tx: Queries, endings: readonly Ending[]): Promise<void> {
    for (const workflow of this.all) {
      const own = endings.filter(({ snapshot }) => this.of(snapshot.request) === workflow);
      if (own.length > 0) await workflow.end?.(tx, own);
    }
  }
}

const CANCELLED_UNCOUNTED: Decision = {
  kind: 'end',
  status: 'cancelled',
  transition: { decision: 'cancelled', next: null },
};

function key(name: string, version: number): string {
  return `${name} ${version}`;
}

/** What the history will be once the cancel has closed its last stage. */
function closeCancelled(history: ReturnType<typeof rebuildHistory>): ReturnType<typeof rebuildHistory> {
  const last = history.at(-1);
  if (last === undefined) return history;
  return [...history.slice(0, -1), { ...last, status: 'completed', result: { cancelled: true } }];
}

function inputOf(snapshot: Snapshot, history: PolicyInput['history'], isCancelled: boolean): PolicyInput {
  const { request, inventories, orders } = snapshot;
  const current = inventories.find(({ inventory_digest }) => inventory_digest === request.inventory_digest);
  if (current === undefined) throw noInventory(request);
  const unblocks = orders.filter(({ kind }) => kind === 'unblock');
  return {
    requestId: request.id,
    target: request.target,
    now: snapshot.now,
    inventory: current.inventory,
    inventoryDigest: current.inventory_digest,
    history,
    isCancelled,
    unblockedAt: unblocks.at(-1)?.ordered_at ?? null,
  };
}

/** Every transition says what it leads to; history is checked against it. */
function withNext(decision: Exclude<Decision, { kind: 'resume' }>, snapshot: Snapshot): Decision {
  if (decision.kind === 'end') return { ...decision, transition: { ...decision.transition, next: null } };
  const { stage, place } = decision;
  return {
    ...decision,
    inputs: { ...decision.inputs, inventory_digest: snapshot.request.inventory_digest },
    transition: { ...decision.transition, next: { stage, place } },
  };
}

function guarded<T>(request: RequestRow, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof HistoryError) {
      throw new RecordIntegrityError(
        `Stage ${error.stageId} of request ${request.id} ${error.message}: a person has to look.`,
        request.id,
        { cause: error },
      );
    }
    throw error;
  }
}

function noInventory(request: RequestRow): RecordIntegrityError {
  return new RecordIntegrityError(
    `Request ${request.id} has no inventory of its digest: a person has to look.`,
    request.id,
  );
}

/** Own properties only: a stage is not called what every object has. */
function hasHandler(workflow: Workflow, stage: string): boolean {
  return Object.hasOwn(workflow.handlers, stage);
}

function undecidable(request: RequestRow, stage: string): RecordIntegrityError {
  return new RecordIntegrityError(
    `The policy of workflow ${request.workflow} version ${request.workflow_version} decided for stage ${stage} of request ${request.id}, which has no handler: repair the workflow.`,
    request.id,
  );
}

function unknownStage(request: RequestRow, stageId: string, stage: string): RecordIntegrityError {
  return new RecordIntegrityError(
    `Stage ${stageId} (${stage}) of request ${request.id} is unknown to workflow ${request.workflow} version ${request.workflow_version}: a person has to look.`,
    request.id,
  );
}

/** Whether an error means that the request is to be left alone, not blocked. */
export function isUnregistered(error: unknown): boolean {
  return isExpungeError(error, 'UNREGISTERED_VERSION');
}
