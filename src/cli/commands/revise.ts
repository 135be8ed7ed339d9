import { requestId } from '../arguments.js';
import { type CommandSpec, required } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { withSession } from '../session.js';
import { pairs } from '../table.js';
import { inventoryLines } from './submit.js';

interface Options {
  readonly by: string;
}

/** WF-6. */
export const revise: CommandSpec<Options> = {
  usage: 'revise <id>',
  summary: 'count a request again under the present configuration, for a new approval',
  options: [required('--by <id>', "the operator's id")],
  examples: ['revise 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --by anna'],
  async run([id], { by }, { output, place }) {
    const request = requestId(id);
    return withSession(place, async (client) => {
      const revised = await client.revise(request, by);
      output.result({ id: request, ...revised }, () => {
        const summary = pairs([
          ['request', request],
          ['status', revised.status],
          ['digest', revised.inventory_digest],
        ]);
        return `${summary}\n${inventoryLines(revised.inventory)}`;
      });
      return EXIT.done;
    });
  },
};
