/** The recovery points of the executor's contract: a process is killed at each of them, and another one goes on. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { DeletionRecord, type ShownRequest } from '../src/client/record.js';
import { submitUserDeletion } from '../src/client/user-deletions.js';
import { COMMUNITY_B as B } from '../src/workflows/user-deletion/inventory.js';
import { userDeletion } from '../src/workflows/user-deletion/workflow.js';
import { describeWithPostgres } from './support/postgres.js';
import { dump, expireLease, makeDue, openServerRecord, readableLog } from './support/record.js';

// A test here starts several processes, each of which takes seconds on a machine that is busy.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

const child = fileURLToPath(new URL('./support/recovery-child.mjs', import.meta.url));

interface Point {
  readonly at: 'before-transaction' | 'after-transaction' | 'after-transition' | 'during-handler' | 'after-save';
  readonly transaction?: number;
  readonly stage?: string;
  readonly community?: string | null;
  readonly failStage?: string;
}

interface Line {
  readonly paused?: string;
  readonly started?: string;
  readonly community?: string | null;
  readonly end?: { readonly kind: string; readonly status?: string };
  readonly refused?: string;
  readonly message?: string;
}

describeWithPostgres('recovery of user deletions', () => {
  let office: Awaited<ReturnType<typeof openServerRecord>>;
  let record: DeletionRecord;
  /** The rows of a run that nobody disturbed. */
  let plain: unknown;
  beforeAll(async () => {
    office = await openServerRecord();
    record = new DeletionRecord(office.database, readableLog().log, [userDeletion()]);
    plain = await undisturbed();
  });
  afterAll(() => office.close());

  let last = 0;
  async function approved(): Promise<string> {
    last += 1;
    const target = `demo:recovery-${last}`;
    const { id, inventory_digest } = await submitUserDeletion(office.database, { target, requestedBy: 'anna' });
    await record.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest });
    return id;
  }

  function start(id: string, point: Point | null) {
    const started = spawn(process.execPath, [child, office.url, id, JSON.stringify(point)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines: Line[] = [];
    const reader = createInterface(started.stdout);
    const exited = once(started, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
    const paused = new Promise<void>((resolve, reject) => {
      reader.on('line', (text) => {
        const line = JSON.parse(text) as Line;
        lines.push(line);
        if (line.paused !== undefined) resolve();
      });
      reader.on('close', () =>
        reject(new Error(`the process ended and did not come to its point: ${JSON.stringify(lines)}`)),
      );
    });
    // Whoever runs to the end does not pause.
    paused.catch(() => undefined);
    return { process: started, lines, paused, exited };
  }

  /** Kills a process that has come to the point. */
  async function killAt(id: string, point: Point): Promise<readonly Line[]> {
    const running = start(id, point);
    await running.paused;
    running.process.kill('SIGKILL');
    expect(await running.exited).toEqual([null, 'SIGKILL']);
    return running.lines;
  }

  /** Runs it in another process, to where it goes. */
  async function goOn(id: string, failStage?: string): Promise<readonly Line[]> {
    const running = start(id, failStage === undefined ? null : { at: 'after-save', failStage });
    expect(await running.exited).toEqual([0, null]);
    return running.lines;
  }

  const handlersOf = (lines: readonly Line[]) =>
    lines.flatMap(({ started, community }) =>
      started === undefined ? [] : [`${started} ${community?.slice(-1) ?? '-'}`],
    );

  const ALL = ['gate_user -', 'purge_db b', 'purge_agents b', 'purge_db c', 'purge_agents c'];

  /** Every row of the request, but for ids, times, attempts and lease generations. */
  async function rowsOf(id: string): Promise<unknown> {
    const { request, inventories, approvals, stages, orders } = await record.show(id);
    const names = new Map<string, string>([
      [id, 'REQUEST'],
      [String(request.target), 'TARGET'],
      [String(request.inventory_digest), 'DIGEST'],
    ]);
    stages.forEach((stage, index) => names.set(stage.id, `STAGE ${index}`));
    approvals.forEach((approval, index) => names.set(approval.id, `APPROVAL ${index}`));
    const rows: Omit<ShownRequest, 'events'> = { request, inventories, approvals, stages, orders };
    const dropped = new Set(['attempts', 'lease_generation']);
    return JSON.parse(JSON.stringify(rows), (key, value: unknown) => {
      if (dropped.has(key)) return undefined;
      if (typeof value !== 'string') return value;
      if (/^\d{4}-\d{2}-\d{2}T/.test(value)) return 'TIME';
      return names.get(value) ?? value;
    });
  }

  async function undisturbed(failStage?: string): Promise<unknown> {
    const id = await approved();
    if (failStage !== undefined) {
      await goOn(id, failStage);
      await makeDue(office.database, id);
    }
    await goOn(id);
    return rowsOf(id);
  }

  const standsAt = async (id: string): Promise<string> => {
    const { request, stages } = await record.show(id);
    const current = stages.find(({ is_current }) => is_current);
    return `${request.status}: ${current === undefined ? 'no stage' : `${current.stage} ${current.status}`}`;
  };

  /** While the dead owner's lease lasts, nobody takes over (EX-21). */
  async function waitForLease(id: string): Promise<void> {
    const [refusal] = await goOn(id);
    expect(refusal).toMatchObject({ refused: 'LEASED' });
    await expireLease(office.database, id);
  }

  test('EX-2: killed before the first transition, an approved request is initialized by the next run', async () => {
    const id = await approved();
    expect(handlersOf(await killAt(id, { at: 'before-transaction', transaction: 1 }))).toEqual([]);
    expect(await standsAt(id)).toBe('approved: no stage');
    await waitForLease(id);
    expect(handlersOf(await goOn(id))).toEqual(ALL);
    expect(await rowsOf(id)).toEqual(plain);
  });

  test('EX-16: killed during a handler, the same unfinished row is resumed after the lease has run out', async () => {
    const id = await approved();
    const before = handlersOf(await killAt(id, { at: 'during-handler', stage: 'purge_agents', community: B }));
    expect(before).toEqual(ALL.slice(0, 3));
    expect(await standsAt(id)).toBe('running: purge_agents running');
    const interrupted = (await record.show(id)).stages.at(-1);
    await waitForLease(id);
    expect(handlersOf(await goOn(id))).toEqual(ALL.slice(2));
    const shown = await record.show(id);
    expect(shown.stages[2]).toMatchObject({ id: interrupted?.id, attempts: 2, started_at: interrupted?.started_at });
    expect(shown.request.lease_generation).toBe(2);
    expect(shown.events.map(({ event }) => event)).toContain('taken_over');
    expect(await rowsOf(id)).toEqual(plain);
  });

  test('EX-17: killed after a saved failure, the same row is tried again after its deadline', async () => {
    const id = await approved();
    await killAt(id, { at: 'after-save', stage: 'purge_db', community: B, failStage: 'purge_db' });
    expect(await standsAt(id)).toBe('retry_wait: purge_db failed');
    const failed = (await record.show(id)).stages.at(-1);
    // The save has given ownership back: it is the deadline that is in the way, and no dead owner.
    const [refusal] = await goOn(id);
    expect(refusal).toMatchObject({ refused: 'NOT_DUE' });
    expect(refusal?.message).toContain((await record.show(id)).request.next_attempt_at?.toISOString());
    await makeDue(office.database, id);
    expect(handlersOf(await goOn(id))).toEqual(ALL.slice(1));
    expect((await record.show(id)).stages[1]).toMatchObject({ id: failed?.id, attempts: 2 });
    expect(await rowsOf(id)).toEqual(await undisturbed('purge_db'));
  });

  test('EX-18: killed after a saved success, its result is used and its handler does not run again', async () => {
    const id = await approved();
    await killAt(id, { at: 'after-save', stage: 'purge_db', community: B });
    expect(await standsAt(id)).toBe('running: purge_db completed');
    await waitForLease(id);
    expect(handlersOf(await goOn(id))).toEqual(ALL.slice(2));
    expect((await record.show(id)).stages.map(({ attempts }) => attempts)).toEqual([1, 1, 1, 1, 1]);
    expect(await rowsOf(id)).toEqual(plain);
  });

  test('EX-13: killed after a transition has committed, the saved successor is what goes on', async () => {
    const id = await approved();
    await killAt(id, { at: 'after-transition', stage: 'purge_db', community: B });
    // The transition begins the stage that its worker goes on with.
    expect(await standsAt(id)).toBe('running: purge_db running');
    const successor = (await record.show(id)).stages.at(-1);
    await waitForLease(id);
    expect(handlersOf(await goOn(id))).toEqual(ALL.slice(1));
    const { stages } = await record.show(id);
    expect(stages[1]?.id).toBe(successor?.id);
    expect(stages.map(({ attempts }) => attempts)).toEqual([1, 2, 1, 1, 1]);
    expect(await rowsOf(id)).toEqual(plain);
  });

  test('EX-19: killed after the terminal commit, a rerun succeeds and changes nothing', async () => {
    const id = await approved();
    expect(handlersOf(await killAt(id, { at: 'after-transaction', transaction: 2 }))).toEqual(ALL);
    expect(await standsAt(id)).toBe('completed: no stage');
    const before = await dump(office.database);
    expect(await goOn(id)).toEqual([{ end: { kind: 'ended', status: 'completed' } }]);
    expect(await dump(office.database)).toEqual(before);
    expect(await rowsOf(id)).toEqual(plain);
  });
});
