/** Fills Expunge's record with approved requests, and looks at what became of them. */
import { sql } from 'kysely';
import { v7 as uuidv7 } from 'uuid';
import { submit } from '../../dist/requests/submit.js';
import { DIGEST, INVENTORY, STAGES } from './no-op-workflow.mjs';

const CHUNK = 1_000;

/** Requests that a worker may claim. */
export async function submitApproved(database, count) {
  for (let first = 0; first < count; first += CHUNK) {
    const requests = Array.from({ length: Math.min(CHUNK, count - first) }, newRequest);
    await database.transaction(async (tx) => {
      await submit(tx, requests);
      const ids = JSON.stringify(requests.map(({ id }) => ({ id, approval: uuidv7() })));
      await sql`
        WITH approved AS (
          INSERT INTO ${tx.t.approvals} (id, request_id, inventory_digest, approved_by)
          SELECT x.approval, x.id, ${DIGEST}::text, 'operator-b'
            FROM jsonb_to_recordset(${ids}::text::jsonb) AS x (id uuid, approval uuid)
          RETURNING request_id
        )
        UPDATE ${tx.t.requests} r SET status = 'approved' FROM approved WHERE r.id = approved.request_id`.execute(
        tx.db,
      );
    });
  }
}

function newRequest() {
  return {
    id: uuidv7(),
    workflow: 'no-op',
    workflowVersion: 1,
    target: null,
    subjectReference: null,
    inventory: INVENTORY,
    inventoryDigest: DIGEST,
    requestedBy: 'operator-a',
    reasonCode: null,
    idempotencyKey: null,
    approvalsRequired: 1,
    dueAt: null,
    sealed: [],
  };
}

/** Finished requests, as they stand in the tables of whoever has used Expunge for years. */
export async function plantFinished(database, count) {
  const { db, t } = database;
  await sql`
    WITH r AS (
      INSERT INTO ${t.requests} (id, workflow, workflow_version, inventory_digest, status, requested_by, lease_generation,
                                 created_at, completed_at)
      SELECT gen_random_uuid(), 'no-op', 1, ${DIGEST}::text, 'completed', 'operator-a', 1,
             clock_timestamp() - interval '1 year', clock_timestamp() - interval '1 year'
        FROM generate_series(1, ${count}::integer)
      RETURNING id
    ), i AS (
      INSERT INTO ${t.inventories} (request_id, revision, inventory, inventory_digest)
      SELECT id, 1, ${JSON.stringify(INVENTORY)}::text::jsonb, ${DIGEST}::text FROM r
    ), e AS (
      INSERT INTO ${t.events} (request_id, event, actor) SELECT id, 'completed', 'worker' FROM r
    )
    INSERT INTO ${t.stages} (id, request_id, stage, status, is_current, started_at, finished_at, attempts, metadata_json)
    SELECT gen_random_uuid(), r.id, stage, 'completed', false, clock_timestamp(), clock_timestamp(), 1,
           '{"inputs": {}, "result": {"rows": 0}, "transition": {"decision": "next"}, "previous_stage_id": null}'
      FROM r CROSS JOIN jsonb_array_elements_text(${JSON.stringify(STAGES)}::text::jsonb) AS stage`.execute(db);
  for (const table of [t.requests, t.inventories, t.events, t.stages]) await sql`VACUUM ANALYZE ${table}`.execute(db);
}

/** @throws where a stage of a request lacks its running mark, its result or its decision. */
export async function requireAllDone(database, count) {
  const { db, t } = database;
  const { rows } = await sql`
    SELECT count(DISTINCT r.id)::integer AS requests,
           count(*) FILTER (WHERE s.status = 'completed' AND NOT s.is_current AND s.attempts = 1
                              AND s.started_at IS NOT NULL AND s.finished_at IS NOT NULL
                              AND s.metadata_json ? 'result' AND s.metadata_json ? 'transition')::integer AS stages
      FROM ${t.requests} r JOIN ${t.stages} s ON s.request_id = r.id
     WHERE r.status = 'completed' AND r.lease_owner IS NULL AND r.completed_at > clock_timestamp() - interval '1 day'`.execute(
    db,
  );
  const [{ requests, stages }] = rows;
  if (requests === count && stages === count * STAGES.length) return;
  throw new Error(`${requests} of ${count} requests and ${stages} of ${count * STAGES.length} stages are done`);
}
