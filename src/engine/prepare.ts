/** Counts requests that were submitted without an inventory (WF-1): claimed many at a time, saved under their leases. */
import { type Counters, counters as processCounters } from '../observe/counters.js';
import { describeError } from '../observe/describe-error.js';
import { applyStandingApprovals } from '../requests/apply-standing-approvals.js';
import { block } from '../requests/block.js';
import type { Claimed } from '../requests/claim.js';
import { appendEvents } from '../requests/events.js';
import { release } from '../requests/release.js';
import { LeaseLostError } from '../requests/request-error.js';
import type { Lease } from '../requests/request.js';
import { type Preparation, savePreparations, type SavedPreparation } from '../requests/save-preparations.js';
import { transition } from '../requests/transition.js';
import type { Queries } from '../storage/database.js';
import type { AdvanceOptions, RunEnd } from './advance.js';
import { bisect, bisectStatement } from './bisect.js';
import { faultOf, sendAgain } from './database-fault.js';
import { HandlerScope } from './handler-scope.js';
import { isNobodysFault } from './run-handler.js';

export type PrepareOptions = Pick<AdvanceOptions, 'database' | 'workflows' | 'keeper' | 'log' | 'signal' | 'counters'>;

interface Prepared extends Claimed {
  readonly preparation: Preparation;
}

/**
 * Returns when no work on them runs any more; ownership has been given back then, unless it was lost.
 * @throws DatabaseUnavailableError, and whatever else says that the database can write nothing at present.
 */
export async function prepare(
  claimed: readonly Claimed[],
  options: PrepareOptions,
): Promise<ReadonlyMap<string, RunEnd>> {
  const leases = leasesOf(claimed);
  try {
    return await new Preparing(options).run(claimed);
  } catch (error) {
    options.keeper.drop(leases);
    if (faultOf(error) !== 'database') await release(options.database, leases).catch(() => undefined);
    throw error;
  }
}

class Preparing {
  readonly #options: PrepareOptions;
  readonly #ends = new Map<string, RunEnd>();
  readonly #counters: Counters;

  constructor(options: PrepareOptions) {
    this.#options = options;
    this.#counters = options.counters ?? processCounters;
  }

  async run(claimed: readonly Claimed[]): Promise<ReadonlyMap<string, RunEnd>> {
    const names = new Set(claimed.map(nameOf));
    for (const name of names) await this.#prepareAll(claimed.filter((item) => nameOf(item) === name));
    return this.#ends;
  }

  /** All of them are of one version of a workflow. */
  async #prepareAll(items: readonly Claimed[]): Promise<void> {
    const { database, keeper, signal } = this.#options;
    const scope = new HandlerScope(signal, (onAllLost) => keeper.watch(leasesOf(items), onAllLost));
    try {
      const { results, failed } = await bisect(
        items,
        (part) => this.#ask(part, scope.signal),
        (error) => scope.signal.aborted || isNobodysFault(error, database),
      );
      const thrown = failed.map(({ item, error }) => ({ ...item, preparation: failure(error) }));
      await this.#save([...results.flat(), ...thrown]);
    } catch (error) {
      if (!scope.signal.aborted || faultOf(error) === 'database') throw error;
      await this.#giveBack(items.filter(({ lease }) => !this.#ends.has(lease.requestId)));
    } finally {
      scope.close();
    }
  }

  async #ask(items: readonly Claimed[], signal: AbortSignal): Promise<readonly Prepared[]> {
    signal.throwIfAborted();
    const [first] = items as readonly [Claimed];
    const workflow = this.#options.workflows.of(first.request);
    const answers = await workflow.prepare?.(
      items.map(({ request }) => request),
      signal,
    );
    signal.throwIfAborted();
    return items.map((item) => ({
      ...item,
      preparation: answers?.get(item.lease.requestId) ?? {
        kind: 'failed',
        error: `NOT_PREPARED: workflow ${workflow.name} gave no inventory for this request`,
        retryable: false,
      },
    }));
  }

  async #save(items: readonly Prepared[]): Promise<void> {
    const { database, keeper } = this.#options;
    const own = items.filter(({ lease }) => keeper.owns(lease));
    const { results, failed } = await bisectStatement(own, (part) =>
      keeper.writing(leasesOf(part), () => database.transaction((tx) => saveAndApprove(tx, part))),
    );
    const saved = new Map(results.flatMap((map) => [...map]));
    for (const { item, error } of failed) await this.#block(item, error);
    await this.#lost(items.filter(({ lease }) => !saved.has(lease.requestId) && !this.#ends.has(lease.requestId)));
    for (const item of own) {
      const result = saved.get(item.lease.requestId);
      if (result !== undefined && !result.cancelling) this.#saved(item, result);
    }
    await this.#cancel(own.filter(({ lease }) => saved.get(lease.requestId)?.cancelling === true));
  }

  #saved({ lease, request, preparation }: Prepared, { status, next_attempt_at }: SavedPreparation): void {
    const why =
      preparation.kind === 'counted' ? null : preparation.kind === 'failed' ? preparation.error : preparation.why;
    if (status === 'blocked') {
      const reason = codeOf(why ?? '');
      this.#options.log.error('request_blocked', { requestId: lease.requestId, code: reason });
      this.#counters.add('expunge_requests_blocked_total', { workflow: request.workflow, reason });
    }
    this.#end(lease, { kind: 'waiting', status, until: next_attempt_at, why });
  }

  /** A cancel that came while they were counted: the transition ends them. */
  async #cancel(items: readonly Prepared[]): Promise<void> {
    if (items.length === 0) return;
    const { database, keeper, workflows } = this.#options;
    const positions = items.map(({ lease }) => ({ requestId: lease.requestId, lease, expectedStageId: null }));
    const results = await keeper.writing(leasesOf(items), () =>
      sendAgain(() => database.transaction((tx) => transition(tx, positions, workflows))),
    );
    for (const item of items) {
      const result = results.get(item.lease.requestId);
      if (result?.kind === 'ended') this.#end(item.lease, result);
      else if (result?.kind === 'error') await this.#block(item, result.error);
      else await this.#lost([item]);
    }
  }

  async #block({ lease }: Claimed, error: unknown): Promise<void> {
    const { database, keeper, log } = this.#options;
    const { error: reason } = failure(error);
    const blocked = await keeper.writing([lease], () => sendAgain(() => block(database, [{ lease, reason }])));
    if (!blocked.has(lease.requestId)) return;
    log.error('request_blocked', { requestId: lease.requestId, code: describeError(error).code });
    this.#end(lease, { kind: 'error', error });
  }

  async #giveBack(items: readonly Claimed[]): Promise<void> {
    const leases = leasesOf(items);
    this.#options.keeper.drop(leases);
    await sendAgain(() => release(this.#options.database, leases));
    for (const lease of leases) this.#end(lease, { kind: 'interrupted' });
  }

  /** A stale owner's write was refused; the log says so, and another worker counts. */
  async #lost(items: readonly Claimed[]): Promise<void> {
    if (items.length === 0) return;
    await appendEvents(
      this.#options.database,
      items.map(({ lease }) => ({
        request_id: lease.requestId,
        event: 'stale_write_refused',
        actor: lease.owner,
        detail: { operation: 'prepare', lease_generation: lease.generation },
      })),
    );
    this.#counters.add('expunge_stale_writes_total', { operation: 'prepare' }, items.length);
    for (const { lease } of items) this.#end(lease, { kind: 'error', error: new LeaseLostError(lease.requestId) });
  }

  #end(lease: Lease, end: RunEnd): void {
    this.#options.keeper.drop([lease]);
    this.#ends.set(lease.requestId, end);
  }
}

/** In one transaction, so that no crash comes between what was counted and the question who approves it. */
async function saveAndApprove(tx: Queries, items: readonly Prepared[]): Promise<ReadonlyMap<string, SavedPreparation>> {
  const saved = await savePreparations(tx, items);
  const counted = items.filter(({ preparation }) => preparation.kind === 'counted').map(({ lease }) => lease.requestId);
  const approved = await applyStandingApprovals(
    tx,
    counted.filter((id) => saved.get(id)?.status === 'submitted' && saved.get(id)?.cancelling === false),
  );
  return new Map([...saved].map(([id, one]) => [id, approved.has(id) ? { ...one, status: 'approved' } : one]));
}

function failure(error: unknown): { readonly kind: 'failed'; readonly error: string; readonly retryable: boolean } {
  const { code, message } = describeError(error);
  return { kind: 'failed', error: message.startsWith(code) ? message : `${code}: ${message}`, retryable: true };
}

/** Reasons begin with their code. */
function codeOf(why: string): string {
  return /^[A-Z][A-Z_]*(?=:)/.exec(why)?.[0] ?? 'failures';
}

function nameOf({ request }: Claimed): string {
  return `${request.workflow} ${request.workflow_version}`;
}

function leasesOf(items: readonly { readonly lease: Lease }[]): readonly Lease[] {
  return items.map(({ lease }) => lease);
}
