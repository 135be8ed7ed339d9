/**
 * The limit: the least that PostgreSQL has to do for a stage (its row is inserted, marked as running, gets its result and its
 * decision, and the request follows), in one bare statement each for a whole batch, with no lease, no history, no policy and
 * no check. Whatever keeps the same rows cannot be faster by much.
 */
import pg from 'pg';
import { contestant } from '../measure/contestant.mjs';

const STAGES = 5;

const TABLES = `
  CREATE TABLE requests (id bigint PRIMARY KEY, status text NOT NULL, owner text, generation bigint NOT NULL DEFAULT 0);
  CREATE INDEX ON requests (id) WHERE status <> 'completed';
  CREATE TABLE stages (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), request_id bigint NOT NULL REFERENCES requests, number integer NOT NULL,
    status text NOT NULL, is_current boolean NOT NULL, started_at timestamptz, finished_at timestamptz, metadata jsonb NOT NULL);
  CREATE UNIQUE INDEX ON stages (request_id) WHERE is_current;
  CREATE INDEX ON stages (request_id);
  CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, request_id bigint NOT NULL, event text NOT NULL);
  CREATE INDEX ON events (request_id, id);`;

const CLAIM = `
  UPDATE requests SET owner = $1, generation = generation + 1, status = 'running'
   WHERE id = ANY (ARRAY(SELECT id FROM requests WHERE status = 'approved' ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED))
  RETURNING id`;
const ENTER = `
  WITH closed AS (
    UPDATE stages SET is_current = false, metadata = metadata || '{"transition": {"decision": "next"}}'
     WHERE request_id = ANY ($1) AND is_current RETURNING request_id
  ), logged AS (
    INSERT INTO events (request_id, event) SELECT unnest($1::bigint[]), 'transition'
  ), moved AS (
    UPDATE requests SET status = CASE WHEN $2 > ${STAGES} THEN 'completed' ELSE 'running' END WHERE id = ANY ($1)
  )
  INSERT INTO stages (request_id, number, status, is_current, metadata)
  SELECT x, $2, 'pending', true, '{"inputs": {}}'
    FROM unnest($1::bigint[]) AS x LEFT JOIN closed ON closed.request_id = x
   WHERE $2::integer <= ${STAGES}`;
const START = `UPDATE stages SET status = 'running', started_at = clock_timestamp() WHERE request_id = ANY ($1) AND is_current`;
const SAVE = `
  UPDATE stages SET status = 'completed', finished_at = clock_timestamp(), metadata = metadata || '{"result": {"rows": 0}}'
   WHERE request_id = ANY ($1) AND is_current`;

await contestant({
  async prepare({ url, requests, atOnce }) {
    const pool = new pg.Pool({ connectionString: url, max: atOnce });
    await pool.query(TABLES);
    await pool.query(
      `INSERT INTO requests (id, status) SELECT n, 'approved' FROM generate_series(1, $1::integer) AS n`,
      [requests],
    );
    await pool.query('VACUUM ANALYZE');
    return { pool };
  },
  async run({ pool }, { requests, batch, atOnce }) {
    const one = async () => {
      for (;;) {
        const { rows } = await pool.query(CLAIM, ['plain', batch]);
        if (rows.length === 0) return;
        const ids = rows.map(({ id }) => id);
        await pool.query(ENTER, [ids, 1]);
        for (let stage = 1; stage <= STAGES; stage += 1) {
          await pool.query(START, [ids]);
          await pool.query(SAVE, [ids]);
          await pool.query(ENTER, [ids, stage + 1]);
        }
      }
    };
    await Promise.all(Array.from({ length: atOnce }, one));
    return requests * STAGES;
  },
  async check({ pool }, { requests }) {
    const { rows } = await pool.query(`
      SELECT count(*)::integer AS done FROM stages
       WHERE status = 'completed' AND NOT is_current AND metadata ? 'result' AND metadata ? 'transition'`);
    if (rows[0].done !== requests * STAGES) throw new Error(`${rows[0].done} stages are done`);
  },
  close: ({ pool }) => pool.end(),
});
