import { requestId, wholeNumber } from '../arguments.js';
import { type CommandSpec, optional, repeatable } from '../command.js';
import { type RunOptions, runOptions, runRequest } from './run.js';

interface Options extends RunOptions {
  readonly demoNoAgentsIn?: readonly string[];
  readonly failStage?: string;
  readonly stageDelayMs?: string;
}

const LONGEST_DELAY_MS = 86_400_000;

/** OP-4: the one run that can be told to fail. */
export const userDeletionsRun: CommandSpec<Options> = {
  usage: 'run <id>',
  summary: 'run one training request, with the faults that are asked for',
  options: [
    ...runOptions(),
    repeatable('--demo-no-agents-in <uuid>', 'pretend that no agents are found in this community; may be repeated'),
    optional('--fail-stage <name>', 'let this stage fail'),
    optional('--stage-delay-ms <n>', 'let every stage take so many milliseconds'),
  ],
  examples: [
    'run 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --fail-stage purge_db',
    'run 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --stage-delay-ms 60000',
  ],
  async run([id], options, context) {
    const { demoNoAgentsIn, failStage, stageDelayMs } = options;
    const delay = stageDelayMs === undefined ? 0 : wholeNumber('--stage-delay-ms', stageDelayMs, 0, LONGEST_DELAY_MS);
    const isPlain = demoNoAgentsIn === undefined && failStage === undefined && delay === 0;
    if (isPlain) return runRequest(requestId(id), options, context);
    return runRequest(requestId(id), options, context, async (shown) => {
      const { rehearse } = await import('../../client/rehearse.js');
      return rehearse(shown, {
        noAgentsIn: demoNoAgentsIn ?? [],
        failStage: failStage ?? null,
        stageDelayMs: delay,
      });
    });
  },
};
