/** graphile-worker with the batching that its documentation recommends for speed: a local queue and batched completion. */
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { execute } from '../measure/server.mjs';
import { contestant } from '../measure/contestant.mjs';

const silent = new Logger(() => () => undefined);

await contestant({
  async prepare({ url, jobs }) {
    const utils = await makeWorkerUtils({ connectionString: url, logger: silent });
    await utils.migrate();
    for (let first = 0; first < jobs; first += 10_000) {
      const count = Math.min(10_000, jobs - first);
      await utils.addJobs(Array.from({ length: count }, () => ({ identifier: 'nothing', payload: {} })));
    }
    await utils.release();
    return { done: 0 };
  },
  async run(context, { url, jobs }) {
    const finished = Promise.withResolvers?.() ?? deferred();
    const runner = await run({
      preset: {
        worker: {
          connectionString: url,
          concurrentJobs: 24,
          maxPoolSize: 25,
          localQueue: { size: 500 },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
      logger: silent,
      noHandleSignals: true,
      taskList: {
        nothing: () => {
          context.done += 1;
          if (context.done === jobs) finished.resolve();
        },
      },
    });
    await finished.promise;
    // Completions that are still to be written are part of the work.
    await runner.stop();
    return jobs;
  },
  async check({ done }, { url, jobs }) {
    const [{ count }] = await execute(url, 'SELECT count(*)::integer AS count FROM graphile_worker._private_jobs');
    if (done !== jobs || count !== 0) throw new Error(`${done} of ${jobs} jobs are done, ${count} are left`);
  },
});

function deferred() {
  let resolve;
  const promise = new Promise((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
