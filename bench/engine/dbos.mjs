/** DBOS Transact: workflows of five steps that do nothing, some at once or one after the other. */
import { DBOS } from '@dbos-inc/dbos-sdk';
import { execute } from '../measure/server.mjs';
import { contestant } from '../measure/contestant.mjs';

const STEPS = ['one', 'two', 'three', 'four', 'five'];

async function fiveSteps() {
  for (const name of STEPS) await DBOS.runStep(async () => 0, { name });
}

const workflow = DBOS.registerWorkflow(fiveSteps, { name: 'fiveSteps' });

await contestant({
  async prepare({ url, atOnce }) {
    DBOS.setConfig({
      name: 'bench',
      systemDatabaseUrl: url,
      systemDatabasePoolSize: Math.max(atOnce, 10),
      logLevel: 'error',
    });
    await DBOS.launch();
    await workflow();
  },
  async run(_context, { workflows, atOnce }) {
    let left = workflows;
    const one = async () => {
      while (left > 0) {
        left -= 1;
        await workflow();
      }
    };
    await Promise.all(Array.from({ length: atOnce }, one));
    return workflows * STEPS.length;
  },
  async check(_context, { url, workflows }) {
    const [{ count }] = await execute(url, 'SELECT count(*)::integer AS count FROM dbos.operation_outputs');
    if (count !== (workflows + 1) * STEPS.length) throw new Error(`${count} steps are in the tables`);
  },
  close: () => DBOS.shutdown(),
});
