/**
 * One process that runs one training request with the built package, and stops dead where it is told to, so that its parent
 * can kill it exactly there. It says where it is on standard output, one line of JSON each.
 *
 * Arguments: the database's URL, the request's id, and the point as JSON (null to run to the end).
 */
import { writeSync } from 'node:fs';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { DeletionRecord } from '../../dist/client/record.js';
import { createLog } from '../../dist/observe/log.js';
import { openPostgres } from '../../dist/storage/postgres/postgres-database.js';
import { userDeletion } from '../../dist/workflows/user-deletion/workflow.js';

const [url, requestId, pointText] = process.argv.slice(2);
/** @typedef {{ at: string, transaction?: number, stage?: string, community?: string | null, failStage?: string }} Point */
/** @type {unknown} */
const given = JSON.parse(pointText ?? 'null');
const point = /** @type {Point | null} */ (given);

/** @param {object} line */
const say = (line) => writeSync(1, `${JSON.stringify(line)}\n`);

/** The thread never comes back: neither a timer nor a signal handler runs in this process any more. */
const hang = () => {
  say({ paused: point?.at });
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
};

/** @param {{ stage: string, target_community_id: string | null }} stage */
const isThere = (stage) => stage.stage === point?.stage && stage.target_community_id === (point?.community ?? null);

const server = openPostgres({ url: String(url) });
let transactions = 0;
const database = {
  ...server,
  /** @type {typeof server.transaction} */
  transaction: async (work) => {
    transactions += 1;
    const number = transactions;
    if (point?.at === 'before-transaction' && point.transaction === number) hang();
    const result = await server.transaction(work);
    if (point?.at === 'after-transaction' && point.transaction === number) hang();
    return result;
  },
};

const plain = userDeletion({ noAgentsIn: new Set(), failStage: point?.failStage ?? null, stageDelayMs: 0 });
const handlers = Object.fromEntries(
  Object.entries(plain.handlers).map(([name, handler]) => [
    name,
    /** @type {typeof handler} */
    async (runs, context) => {
      if (point?.at === 'during-handler' && runs.some(({ stage }) => isThere(stage))) {
        say({ paused: point.at });
        // Alive, and renewing its lease, until it is killed.
        await sleep(3_600_000);
      }
      return handler(runs, context);
    },
  ]),
);

const record = new DeletionRecord(database, createLog(), [{ ...plain, handlers }]);
try {
  const end = await record.run(String(requestId), {
    executorId: `process-${process.pid}`,
    signal: new globalThis.AbortController().signal,
    observer: {
      stageStarted: (stage) => {
        // Its transition has committed, and its handler does not run yet.
        if (point?.at === 'after-transition' && isThere(stage)) hang();
        say({ started: stage.stage, community: stage.target_community_id });
      },
      stageSaved: (stage) => {
        if (point?.at === 'after-save' && isThere(stage)) hang();
      },
    },
  });
  say({ end });
} catch (error) {
  say({ refused: /** @type {{ code?: string }} */ (error).code, message: String(error) });
} finally {
  await server.close();
}
