import type { RunEnd } from '../../engine/advance.js';
import { describeError } from '../../observe/describe-error.js';
import { executorId, wholeNumber } from '../arguments.js';
import { type CommandSpec, optional } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { keepHeapSmall } from '../heap.js';
import { listenForSignals } from '../interruption.js';
import { observe } from '../progress.js';
import { withSession } from '../session.js';
import { table } from '../table.js';

interface Options {
  readonly once?: true;
  readonly concurrency: string;
  readonly batch: string;
  readonly slice: string;
  readonly executorId?: string;
}

/** Runs until a signal; as many side by side as are needed, anywhere. */
export const worker: CommandSpec<Options> = {
  usage: 'worker',
  summary: 'claim approved erasures and run them, until a signal',
  options: [
    optional('--once', 'end when nothing is due any more'),
    optional('--concurrency <number>', 'batches that are worked on side by side').default('2'),
    optional('--batch <number>', 'requests that one claim takes').default('1000'),
    optional(
      '--slice <number>',
      'rows, objects or keys that one call to a target erases; fewer where it is slow',
    ).default('50000'),
    optional('--executor-id <name>', 'who works; by default host name, process id and a random suffix'),
  ],
  examples: ['worker', 'worker --once --concurrency 4'],
  async run(_args, options, { output, place }) {
    keepHeapSmall();
    const executor = executorId(options.executorId);
    const concurrency = wholeNumber('--concurrency', options.concurrency, 1, 64);
    const batch = wholeNumber('--batch', options.batch, 1, 10_000);
    const sliceRows = wholeNumber('--slice', options.slice, 1, 1_000_000);
    return withSession({ ...place, forErasures: true, sliceRows }, async ({ requests }, log) => {
      const interruption = listenForSignals(log);
      const ends = new Map<string, number>();
      try {
        await requests.work({
          ...{ executorId: executor, signal: interruption.signal, concurrency, batch, once: options.once === true },
          observer: {
            ...observe(log, null),
            ended(id, end) {
              const word = wordOf(end);
              ends.set(word, (ends.get(word) ?? 0) + 1);
              if (end.kind === 'error') output.tell(`expunge: ${describeError(end.error).message}`);
              else if (output.isWatched) output.tell(`  ${id}  ${word}`);
            },
          },
        });
      } finally {
        interruption.dispose();
      }
      output.result({ executor_id: executor, ended: Object.fromEntries(ends) }, () =>
        table(
          ['RUNS ENDED AS', 'COUNT'],
          [...ends].map(([word, count]) => [word, String(count)]),
        ),
      );
      const isFailed = failures.some((word) => ends.has(word));
      return interruption.exitCode ?? (isFailed ? EXIT.failed : EXIT.done);
    });
  },
};

/** What a script that runs `worker --once` has to hear of. */
const failures = ['retry_wait', 'blocked', 'error'];

function wordOf(end: RunEnd): string {
  return end.kind === 'ended' || end.kind === 'waiting' ? end.status : end.kind;
}
