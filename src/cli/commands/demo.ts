import { type CommandSpec, optional } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { pairs } from '../table.js';

interface Options {
  readonly keep?: true;
}

/** The first minute. */
export const demo: CommandSpec<Options> = {
  usage: 'demo',
  summary:
    'delete a customer from a small shop in a temporary directory, kill the worker half-way, and verify the receipt',
  options: [optional('--keep', 'leave the shop, so that the next customer can be deleted by hand')],
  examples: ['demo', 'demo --keep'],
  async run(_args, { keep }, { output }) {
    // It brings a whole shop with it: loaded only when it is played.
    const { runDemo } = await import('../../demo/demo.js');
    const report = await runDemo({ keep: keep === true, tell: (line) => output.tell(line) });
    output.result(report, () => pairs(Object.entries(report).map(([name, value]) => [name, String(value)] as const)));
    return EXIT.done;
  },
};
