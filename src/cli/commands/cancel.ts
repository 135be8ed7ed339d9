import { requestId } from '../arguments.js';
import { type CommandSpec, required } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { tellOrder } from '../order-lines.js';
import { withSession } from '../session.js';
import { pairs } from '../table.js';

interface Options {
  readonly by: string;
  readonly reason: string;
}

/** OP-9. */
export const cancel: CommandSpec<Options> = {
  usage: 'cancel <id>',
  summary: 'give a request up, or every one of a batch, as long as nothing of it has been deleted',
  options: [
    required('--by <id>', "the operator's id"),
    required('--reason <text>', 'about operations, never about people; erased when the request ends'),
  ],
  examples: ['cancel 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --by ben --reason "submitted twice"'],
  async run([id], { by, reason }, { output, place }) {
    const order = { requestId: requestId(id), by, reason };
    return withSession(place, async ({ requests, batches }) => {
      if (!(await batches.has(order.requestId))) return tellOrder(await requests.cancel(order), output);
      const result = await batches.cancel({ batchId: order.requestId, by, reason });
      output.result(result, () =>
        pairs([
          ['batch', result.batch_id],
          ['cancelled', String(result.cancelled)],
          ['past their point of no return', String(result.past_return)],
        ]),
      );
      return EXIT.done;
    });
  },
};
