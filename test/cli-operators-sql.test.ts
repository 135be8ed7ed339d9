import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openWorkplace, startProcess, type Workplace } from './support/cli.js';
import { createTestDatabase, describeWithPostgres } from './support/postgres.js';
import { approved, run } from './support/training.js';

/** As operators have written it down: unqualified, with the columns by name. */
const statements = [
  `SELECT target, status, lease_owner, lease_generation, lease_expires_at,
       heartbeat_at, retry_count, next_attempt_at, last_error, completed_at
FROM entity_deletion_requests WHERE id = :request;`,
  `SELECT id, stage, target_community_id, status, is_current,
       started_at, finished_at, metadata_json, last_error
FROM entity_deletion_stage_history WHERE request_id = :request ORDER BY started_at NULLS LAST, id;`,
  `SELECT approved_by, approved_at, inventory_digest
FROM entity_deletion_approvals WHERE request_id = :request ORDER BY approved_at, id;`,
];

describeWithPostgres("operators' own SQL, and migrate", () => {
  let workplace: Workplace;
  beforeAll(async () => {
    workplace = await openWorkplace();
  });
  afterAll(() => workplace.close());

  test.each(['expunge_client', 'expunge_worker'])("operators' statements run as %s", async (role) => {
    const id = await approved(workplace);
    await run(workplace, id);
    const url = new URL(workplace.url);
    url.username = role;
    const client = new pg.Client({ connectionString: url.href });
    await client.connect();
    try {
      const answers = [];
      for (const statement of statements) {
        answers.push((await client.query(statement.replace(':request', `'${id}'`))).rows);
      }
      expect(answers).toMatchObject([
        [{ target: expect.stringMatching(/^demo:/) as string, status: 'completed', lease_owner: null, retry_count: 0 }],
        [
          { stage: 'gate_user' },
          { stage: 'purge_db' },
          { stage: 'purge_agents' },
          { stage: 'purge_db' },
          { stage: 'purge_agents' },
        ],
        [{ approved_by: 'ben' }],
      ]);
    } finally {
      await client.end();
    }
  });

  test("the operators' guide has the same statements", () => {
    const page = readFileSync(new URL('../docs/operator-guide.md', import.meta.url), 'utf8');
    for (const statement of statements) expect(page).toContain(statement);
  });

  test('migrate prints what it applied, and the second time that there was nothing to do', async () => {
    const database = await createTestDatabase();
    try {
      const env = { EXPUNGE_DATABASE_URL: database.url };
      const migrate = () => startProcess(['migrate'], { env, cwd: workplace.directory }).ended;
      const early = await startProcess(['list'], { env, cwd: workplace.directory }).ended;
      expect(early).toMatchObject({ code: 2, stdout: '' });
      expect(early.stderr).toContain('expunge migrate');

      const first = await migrate();
      expect(first).toMatchObject({ code: 0, stderr: '' });
      const report = JSON.parse(first.stdout) as { applied: readonly string[]; owed: readonly string[] };
      expect(report.applied[0]).toBe('1 requests');
      expect(report.owed).toEqual([]);
      expect(JSON.parse((await migrate()).stdout)).toMatchObject({ applied: [], created: [], owed: [] });
    } finally {
      await database.drop();
    }
  });
});
