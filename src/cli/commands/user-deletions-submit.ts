import { type CommandSpec, optional, required } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { inventorySummary } from '../inventory-lines.js';
import { withSession } from '../session.js';
import { pairs } from '../table.js';

interface Options {
  readonly target: string;
  readonly requestedBy: string;
  readonly reasonCode?: string;
}

/** OP-1, OP-2. */
export const userDeletionsSubmit: CommandSpec<Options> = {
  usage: 'submit',
  summary: 'make a training request for a demo: target',
  options: [
    required('--target <demo:NAME>', 'what to pretend to delete'),
    required('--requested-by <id>', "the operator's id"),
    optional('--reason-code <code>', 'why, as a code such as MAIL_REQUEST'),
  ],
  examples: ['submit --target demo:alpha --requested-by anna --reason-code TRAINING'],
  run: (_args, { target, requestedBy, reasonCode }, { output, place }) =>
    withSession(place, async (client) => {
      const request = await client.submitUserDeletion({
        target,
        requestedBy,
        ...(reasonCode === undefined ? {} : { reasonCode }),
      });
      output.result(request, () =>
        pairs([
          ['request', request.id],
          ['status', request.status],
          ['target', request.target],
          ['inventory', inventorySummary(request.inventory)],
          ['digest', request.inventory_digest],
        ]),
      );
      return EXIT.done;
    }),
};
