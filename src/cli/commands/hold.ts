import { requestId, time } from '../arguments.js';
import { type CommandSpec, optional, required } from '../command.js';
import { tellOrder } from '../order-lines.js';
import { withSession } from '../session.js';
import { UsageError } from '../usage-error.js';

interface Options {
  readonly by: string;
  readonly reason?: string;
  readonly until?: string;
  readonly end?: true;
}

/** OP-9, WF-30. */
export const hold: CommandSpec<Options> = {
  usage: 'hold <id>',
  summary: 'pause a request until a time, or end its pause; its deadline goes on',
  options: [
    required('--by <id>', "the operator's id"),
    optional('--until <time>', 'when it goes on by itself, such as 2026-01-31T18:00:00Z').conflicts('end'),
    optional('--reason <text>', 'about operations, never about people; erased when the request ends').conflicts('end'),
    optional('--end', 'end the hold now'),
  ],
  examples: [
    'hold 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --by ben --until 2026-01-31T18:00:00Z --reason "legal asks to wait"',
    'hold 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --by ben --end',
  ],
  async run([id], { by, reason, until, end }, { output, place }) {
    const request = requestId(id);
    if (end === true) {
      return withSession(place, async ({ requests }) =>
        tellOrder(await requests.endHold({ requestId: request, by }), output),
      );
    }
    if (until === undefined || reason === undefined)
      throw new UsageError('A hold needs --until and --reason; --end ends one.');
    const order = { requestId: request, by, reason, until: time('--until', until) };
    return withSession(place, async ({ requests }) => tellOrder(await requests.hold(order), output));
  },
};
