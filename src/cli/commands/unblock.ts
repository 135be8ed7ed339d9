import { requestId } from '../arguments.js';
import { type CommandSpec, required } from '../command.js';
import { tellOrder } from '../order-lines.js';
import { withSession } from '../session.js';

interface Options {
  readonly by: string;
  readonly reason: string;
}

/** OP-9. */
export const unblock: CommandSpec<Options> = {
  usage: 'unblock <id>',
  summary: 'let a blocked request go on; what went wrong stays in its history',
  options: [
    required('--by <id>', "the operator's id"),
    required('--reason <text>', 'what was repaired; erased when the request ends'),
  ],
  examples: ['unblock 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --by ben --reason "warehouse is back"'],
  async run([id], { by, reason }, { output, place }) {
    const order = { requestId: requestId(id), by, reason };
    return withSession(place, async ({ requests }) => tellOrder(await requests.unblock(order), output));
  },
};
