import type { Workflow } from '../../engine/workflow.js';
import type { ShownRequest } from '../../client/record.js';
import { executorId, requestId } from '../arguments.js';
import { type CommandSpec, type Context, optional } from '../command.js';
import { exitCodeOfRun } from '../exit-codes.js';
import { listenForSignals } from '../interruption.js';
import { observe } from '../progress.js';
import { runEndLine, runResult } from '../run-end-lines.js';
import { withSession } from '../session.js';
import { pairs } from '../table.js';

export interface RunOptions {
  readonly nextStep?: true;
  readonly executorId?: string;
}

/** OP-4 to OP-7. */
export const run: CommandSpec<RunOptions> = {
  usage: 'run <id>',
  summary: 'run one approved request as far as it goes',
  options: runOptions(),
  examples: ['run 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f', 'run 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --next-step'],
  run: ([id], options, context) => runRequest(requestId(id), options, context),
};

export function runOptions() {
  return [
    optional('--next-step', 'run one stage, and give the request back'),
    optional('--executor-id <name>', 'who runs it; by default host name, process id and a random suffix'),
  ];
}

/** @param instead - makes the workflow that is run instead of the request's own, for a rehearsal; may refuse. */
export async function runRequest(
  id: string,
  options: RunOptions,
  { output, place }: Context,
  instead?: (shown: ShownRequest) => Promise<Workflow>,
): Promise<number> {
  const stepwise = options.nextStep === true;
  const executor = executorId(options.executorId);
  return withSession(place, async ({ requests }, log) => {
    const workflows = instead === undefined ? [] : [await instead(await requests.show(id))];
    const interruption = listenForSignals(log);
    try {
      const end = await requests.run(
        id,
        {
          executorId: executor,
          signal: interruption.signal,
          ...(stepwise ? { budget: 1 } : {}),
          observer: observe(log, output.isWatched ? process.stderr : null),
        },
        workflows,
      );
      if (end.kind === 'error') throw end.error;
      // The line of the stage that was at work is still open.
      if (end.kind === 'interrupted' && output.isWatched) output.tell('');
      const line = runEndLine(id, end, stepwise);
      if (line !== null) output.tell(`expunge: ${line}`);
      if (end.kind !== 'interrupted') {
        const result = runResult(await requests.show(id), end);
        output.result(result, () =>
          pairs([
            ['request', result.id],
            ['status', result.status],
            [
              'current',
              result.current === null ? null : `${result.current.stage} ${result.current.target_community_id ?? ''}`,
            ],
          ]),
        );
      }
      return exitCodeOfRun(end, interruption.exitCode, stepwise);
    } finally {
      interruption.dispose();
    }
  });
}
