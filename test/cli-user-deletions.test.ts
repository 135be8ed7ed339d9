import { hostname } from 'node:os';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openWorkplace, type Workplace } from './support/cli.js';
import { describeWithPostgres } from './support/postgres.js';
import { approved, B, C, path, requestOf, run, stagesOf, submitted } from './support/training.js';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const NOBODY = '01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f';

describeWithPostgres('expunge user-deletions', () => {
  let workplace: Workplace;
  beforeAll(async () => {
    workplace = await openWorkplace();
  });
  afterAll(() => workplace.close());

  const steps = async (id: string, ...flags: readonly string[]) => {
    const ends = [];
    for (let step = 1; step <= 6; step += 1) {
      const { code } = await workplace.expunge('user-deletions', 'run', id, '--next-step', ...flags);
      const { status, lease_owner } = await requestOf(workplace, id);
      ends.push({ code, status, lease_owner, current: (await path(workplace, id)).filter((it) => it.endsWith('*')) });
      if (status === 'completed') break;
    }
    return ends;
  };

  test('OP-1: submit prints the request', async () => {
    const { code, stdout, stderr } = await workplace.expunge(
      ...[
        'user-deletions',
        'submit',
        '--target',
        'demo:alpha',
        '--requested-by',
        ' anna ',
        '--reason-code',
        'TRAINING',
      ],
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).toMatchObject({
      id: expect.stringMatching(UUID) as string,
      target: 'demo:alpha',
      status: 'submitted',
      inventory: {
        version: 1,
        communities: [
          { id: B, role: 'participant' },
          { id: C, role: 'former_participant' },
        ],
      },
      inventory_digest: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
      requested_by: 'anna',
      reason_code: 'TRAINING',
      created_at: expect.stringMatching(/^\d{4}-.*Z$/) as string,
    });
  });

  test('OP-1: a target without demo: is refused, and its name is not repeated', async () => {
    const { code, stdout, stderr } = await workplace.expunge(
      ...['user-deletions', 'submit', '--target', 'jo@example.org', '--requested-by', 'anna'],
    );
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^expunge: .*demo:NAME.*\n$/);
    expect(stderr).not.toContain('jo@example.org');
  });

  test('OP-2: a live request for the target is named; a cancelled one is not in the way', async () => {
    const first = await submitted(workplace);
    const again = ['user-deletions', 'submit', '--target', first.target, '--requested-by', 'carl'];
    const refused = await workplace.expunge(...again);
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toContain(first.id);

    await workplace.record.cancel({ requestId: first.id, by: 'anna', reason: 'submitted twice' });
    expect(await workplace.json(...again)).toMatchObject({ target: first.target, requested_by: 'carl' });
  });

  test('OP-3, OP-10: approve refuses, says which, and leaves every row as it was', async () => {
    const open = await submitted(workplace);
    const two = await submitted(workplace);
    await workplace.sql('UPDATE entity_deletion_requests SET approvals_required = 2 WHERE id = $1', [two.id]);
    const consent = { requestId: two.id, approvedBy: 'ben', inventoryDigest: two.inventory_digest };
    await workplace.record.approve(consent);
    const broken = await submitted(workplace);
    await spoilInventory(broken.id);
    const done = await approved(workplace);
    const before = await workplace.everyRow();

    const attempts = [
      { id: NOBODY, by: 'ben', digest: open.inventory_digest, says: 'There is no request' },
      { id: open.id, by: 'ben', digest: broken.inventory_digest, says: open.inventory_digest },
      { id: open.id, by: 'ben', digest: 'beef', says: open.inventory_digest },
      { id: broken.id, by: 'ben', digest: broken.inventory_digest, says: 'not valid' },
      { id: open.id, by: ' ANNA ', digest: open.inventory_digest, says: 'same person' },
      { id: done, by: 'carl', digest: open.inventory_digest, says: 'not awaiting approval' },
      { id: two.id, by: 'BEN ', digest: two.inventory_digest, says: 'already' },
    ];
    for (const { id, by, digest, says } of attempts) {
      const { code, stdout, stderr } = await workplace.expunge(
        ...['user-deletions', 'approve', id, '--approved-by', by, '--inventory-digest', digest],
      );
      expect({ says, code, stdout }).toEqual({ says, code: 2, stdout: '' });
      expect(stderr).toMatch(/^expunge: [^\n]+\n$/);
      expect(stderr).toContain(says);
    }
    expect(await workplace.everyRow()).toEqual(before);
  });

  test('OP-4: unknown stages and communities are refused before anything is claimed', async () => {
    const id = await approved(workplace);
    const before = await workplace.everyRow();
    const attempts = [
      { flags: ['--fail-stage', 'purge_cache'], says: 'gate_user, purge_db, purge_agents' },
      { flags: ['--demo-no-agents-in', B, '--demo-no-agents-in', NOBODY], says: C },
      { flags: ['--demo-no-agents-in', 'everywhere'], says: C },
    ];
    for (const { flags, says } of attempts) {
      const { code, stdout, stderr } = await workplace.expunge('user-deletions', 'run', id, ...flags);
      expect({ says, code, stdout }).toEqual({ says, code: 2, stdout: '' });
      expect(stderr).toContain(says);
    }
    expect(await workplace.everyRow()).toEqual(before);
    // Without the group there are no such flags at all.
    expect(await workplace.expunge('run', id, '--fail-stage', 'purge_db')).toMatchObject({ code: 64 });
  });

  test('OP-4: the executor is the one that was named, else host, process and a random suffix', async () => {
    const id = await approved(workplace);
    const run = ['user-deletions', 'run', id, '--next-step', '--stage-delay-ms'];
    const owner = async () => (await requestOf(workplace, id)).lease_owner;
    for (const [flags, expected] of [
      [['--executor-id', 'trainee-1'], /^trainee-1$/],
      [[], new RegExp(`^${hostname()}-\\d+-[0-9a-f]{8}$`)],
    ] as const) {
      const { child, ended } = workplace.start([...run, '60000', ...flags]);
      await expect.poll(owner, { timeout: 60_000, interval: 25 }).toMatch(expected);
      child.kill('SIGTERM');
      await ended;
    }
  });

  test('OP-5, OP-6: five steps, each leaving the next one pending and nobody in possession', async () => {
    const id = await approved(workplace);
    const free = { code: 0, lease_owner: null };
    expect(await steps(id)).toEqual([
      { ...free, status: 'running', current: ['purge_db B pending*'] },
      { ...free, status: 'running', current: ['purge_agents B pending*'] },
      { ...free, status: 'running', current: ['purge_db C pending*'] },
      { ...free, status: 'running', current: ['purge_agents C pending*'] },
      { ...free, status: 'completed', current: [] },
    ]);
    expect(await path(workplace, id)).toEqual([
      'gate_user completed',
      'purge_db B completed',
      'purge_agents B completed',
      'purge_db C completed',
      'purge_agents C completed',
    ]);
  });

  test('OP-4, OP-6: a community without agents is completed by purge_db, in the inventory as it was approved', async () => {
    const id = await approved(workplace);
    const { code, stdout } = await workplace.expunge(
      'user-deletions',
      'run',
      id,
      '--demo-no-agents-in',
      B.toUpperCase(),
    );
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ id, end: 'ended', status: 'completed', current: null });
    expect(await path(workplace, id)).toEqual([
      'gate_user completed',
      'purge_db B completed',
      'purge_db C completed',
      'purge_agents C completed',
    ]);
    expect(await requestOf(workplace, id)).toMatchObject({ lease_owner: null, lease_expires_at: null });
  });

  test('OP-5: a transition that a crash left over is done first and is not the step', async () => {
    const id = await approved(workplace);
    await run(workplace, id, 1);
    // As after a crash between the saved outcome and its transition.
    await workplace.sql(
      `UPDATE entity_deletion_stage_history
          SET status = 'completed', started_at = clock_timestamp(), finished_at = clock_timestamp(), attempts = 1,
              metadata_json = metadata_json || '{"result": {"has_agents": true}}'
        WHERE request_id = $1 AND is_current`,
      [id],
    );
    expect((await workplace.expunge('run', id, '--next-step')).code).toBe(0);
    expect(await path(workplace, id)).toEqual([
      'gate_user completed',
      'purge_db B completed',
      'purge_agents B completed',
      'purge_db C pending*',
    ]);
    expect((await stagesOf(workplace, id))[1]?.attempts).toBe(1);
  });

  test('OP-8: list is newest first, narrowed by status and limit; show has the chain with each decision', async () => {
    const older = await submitted(workplace);
    const id = await approved(workplace);
    await run(workplace, id);
    const newer = await submitted(workplace);
    interface Row {
      readonly id: string;
      readonly status: string;
    }
    const listed = await workplace.json<readonly Row[]>('user-deletions', 'list', '--limit', '3');
    expect(listed.map((row) => row.id)).toEqual([newer.id, id, older.id]);
    const completed = await workplace.json<readonly Row[]>('list', '--status', 'completed');
    expect(new Set(completed.map(({ status }) => status))).toEqual(new Set(['completed']));
    expect(completed.map((row) => row.id)).toContain(id);

    const shown = await workplace.json<Record<string, unknown>>('show', id.toUpperCase());
    expect(shown).toMatchObject({
      request: { id, status: 'completed' },
      inventories: [{ revision: 1 }],
      approvals: [{ approved_by: 'ben' }],
      stages: [
        { stage: 'gate_user', decision: 'enter_communities' },
        { stage: 'purge_db', target_community_id: B, decision: 'purge_agents' },
        { stage: 'purge_agents', target_community_id: B, decision: 'community_complete' },
        { stage: 'purge_db', target_community_id: C, decision: 'purge_agents' },
        { stage: 'purge_agents', target_community_id: C, decision: 'community_complete' },
      ],
    });
    const forPeople = await workplace.expunge('show', id, '--no-json');
    expect(forPeople.stdout).toMatch(
      /purge_agents +00000000-0000-0000-0000-00000000000c +completed .*community_complete/,
    );
  });

  /** What approval has to notice: the stored inventory is no longer a valid one. */
  async function spoilInventory(id: string): Promise<void> {
    await workplace.sql('ALTER TABLE entity_deletion_inventories DISABLE TRIGGER append_only');
    await workplace.sql(
      `UPDATE entity_deletion_inventories SET inventory = inventory || '{"communities": []}' WHERE request_id = $1`,
      [id],
    );
    await workplace.sql('ALTER TABLE entity_deletion_inventories ENABLE TRIGGER append_only');
  }
});
