/** Expunge's worker on a backlog, or one request at a time. */
import { sql } from 'kysely';
import { keepHeapSmall } from '../../dist/cli/heap.js';
import { work } from '../../dist/engine/worker.js';
import { runOne } from '../../dist/engine/run-one.js';
import { RegisteredWorkflows } from '../../dist/engine/registered-workflows.js';
import { createLog } from '../../dist/observe/log.js';
import { migrate } from '../../dist/storage/migrations/migrate.js';
import { openPostgres } from '../../dist/storage/postgres/postgres-database.js';
import { contestant } from '../measure/contestant.mjs';
import { noOp, STAGES } from './no-op-workflow.mjs';
import { plantFinished, requireAllDone, submitApproved } from './record.mjs';

const workflows = new RegisteredWorkflows([noOp]);
const log = createLog();
const signal = new AbortController().signal;

// As the command does.
keepHeapSmall();

await contestant({
  async prepare({ url, requests, finished }) {
    let statements = 0;
    const database = openPostgres({ url, onStatement: () => (statements += 1) });
    await migrate(database);
    if (finished > 0) await plantFinished(database, finished);
    await submitApproved(database, requests);
    statements = 0;
    return { database, statements: () => statements };
  },
  async run({ database }, { requests, oneAtATime, batch }) {
    if (oneAtATime) await runEach(database);
    else {
      await work({ database, workflows, log, signal, executorId: 'bench', once: true, ...(batch ? { batch } : {}) });
    }
    return requests * STAGES.length;
  },
  check: ({ database }, { requests }) => requireAllDone(database, requests),
  close: ({ database }) => database.close(),
});

async function runEach(database) {
  const { rows } = await sql`SELECT id FROM ${database.t.requests} WHERE status = 'approved' ORDER BY id`.execute(
    database.db,
  );
  for (const { id } of rows) await runOne(id, { database, workflows, log, signal, executorId: 'bench' });
}
