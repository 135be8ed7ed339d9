/** pg-boss: fetches and completes jobs in hundreds, eight at once. */
import PgBoss from 'pg-boss';
import { contestant } from '../measure/contestant.mjs';

const QUEUE = 'work';

await contestant({
  async prepare({ url, jobs, atOnce }) {
    const boss = new PgBoss({ connectionString: url, max: atOnce, supervise: false, schedule: false });
    await boss.start();
    await boss.createQueue(QUEUE);
    for (let first = 0; first < jobs; first += 1000) {
      await boss.insert(Array.from({ length: Math.min(1000, jobs - first) }, () => ({ name: QUEUE, data: {} })));
    }
    return { boss, done: 0 };
  },
  async run(context, { chunk, atOnce }) {
    const one = async () => {
      for (;;) {
        const jobs = await context.boss.fetch(QUEUE, { batchSize: chunk });
        if (jobs.length === 0) return;
        await context.boss.complete(
          QUEUE,
          jobs.map(({ id }) => id),
        );
        context.done += jobs.length;
      }
    };
    await Promise.all(Array.from({ length: atOnce }, one));
    return context.done;
  },
  async check({ done }, { jobs }) {
    if (done !== jobs) throw new Error(`${done} of ${jobs} jobs are done`);
  },
  close: ({ boss }) => boss.stop({ graceful: false }),
});
