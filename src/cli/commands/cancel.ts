import { requestId } from '../arguments.js';
import { type CommandSpec, required } from '../command.js';
import { tellOrder } from '../order-lines.js';
import { withSession } from '../session.js';

interface Options {
  readonly by: string;
  readonly reason: string;
}

/** OP-9. */
export const cancel: CommandSpec<Options> = {
  usage: 'cancel <id>',
  summary: 'give a request up, as long as nothing has been deleted',
  options: [
    required('--by <id>', "the operator's id"),
    required('--reason <text>', 'about operations, never about people; erased when the request ends'),
  ],
  examples: ['cancel 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --by ben --reason "submitted twice"'],
  async run([id], { by, reason }, { output, place }) {
    const order = { requestId: requestId(id), by, reason };
    return withSession(place, async ({ requests }) => tellOrder(await requests.cancel(order), output));
  },
};
