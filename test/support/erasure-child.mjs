/**
 * One process that runs one erasure with the built package, and stops dead where it is told to, so that its parent can kill it
 * exactly there. It says on standard output that it has come there.
 *
 * Arguments: where the stores are (JSON), the worker's key file (JSON), the request's id, and the point (JSON).
 */
import { writeSync } from 'node:fs';
import process from 'node:process';
import { Client } from '../../dist/client/client.js';
import { defineConfig } from '../../dist/config/define-config.js';
import { parseKeyRing } from '../../dist/keys/key-ring.js';
import { createLog } from '../../dist/observe/log.js';
import { openPostgres } from '../../dist/storage/postgres/postgres-database.js';
import { files } from '../../dist/targets/files/index.js';
import { postgres } from '../../dist/targets/postgres/index.js';
import { twoStores } from './two-stores.mjs';

const [whereText, keysText, requestId, pointText] = process.argv.slice(2).map(String);
/** @typedef {{ at: string, stage?: string, target?: string | null }} Point */
/** @type {unknown} */
const givenWhere = JSON.parse(whereText ?? '');
const where = /** @type {import('./two-stores.mjs').Where} */ (givenWhere);
/** @type {unknown} */
const givenPoint = JSON.parse(pointText ?? '');
const point = /** @type {Point} */ (givenPoint);

/** The thread never comes back: neither a timer nor a signal handler runs in this process any more. */
const hang = () => {
  writeSync(1, 'paused\n');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
};

/** @param {{ stage: string, target_community_id: string | null }} stage */
const isThere = (stage) => stage.stage === point.stage && stage.target_community_id === (point.target ?? null);

const server = openPostgres({
  url: where.ownUrl,
  onStatement: (text) => {
    if (point.at === 'before-first-transition' && text.includes("'initialized'")) hang();
  },
});
const database = {
  ...server,
  /** @type {typeof server.transaction} */
  transaction: async (work) => {
    const result = await server.transaction(work);
    // The transaction of an end answers with the requests that it ended; any other with what it saved or moved.
    if (point.at === 'after-end' && result instanceof Set && result.size > 0) hang();
    return result;
  },
};

const config = twoStores({ defineConfig, postgres, files }, where);
const targets = Object.fromEntries(
  Object.entries(config.targets).map(([name, declaration]) => {
    const open = () => {
      const target = declaration.open(name);
      const erase = target.erase.bind(target);
      /** @type {typeof target.erase} */
      target.erase = async (...parameters) => {
        if (point.at === 'before-erase' && point.target === name) hang();
        const progress = await erase(...parameters);
        if (point.at === 'after-erase' && point.target === name) hang();
        return progress;
      };
      return target;
    };
    return [name, { ...declaration, open }];
  }),
);

const client = new Client(
  { ...config, targets },
  database,
  parseKeyRing(JSON.parse(keysText ?? ''), 'worker'),
  createLog(),
  // More slices than one, of rows that a test can wait for.
  5_000,
);
await client.requests.run(String(requestId), {
  executorId: `process-${process.pid}`,
  signal: new globalThis.AbortController().signal,
  observer: {
    stageStarted: (stage) => {
      if (point.at === 'after-transition' && isThere(stage)) hang();
    },
    stageSaved: (stage) => {
      if (point.at === 'after-save' && isThere(stage)) hang();
    },
  },
});
await client.close();
