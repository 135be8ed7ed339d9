import { requestId } from '../arguments.js';
import { type CommandSpec, required } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { withSession } from '../session.js';
import { standingLines } from '../standing-lines.js';

/** WF-8. */
export const standingApprovalsRevoke: CommandSpec<{ readonly by: string }> = {
  usage: 'revoke <id>',
  summary: 'end a standing approval at once, for whatever it has not approved yet',
  options: [required('--by <id>', "the operator's id")],
  examples: ['revoke 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --by ben'],
  async run([id], { by }, { output, place }) {
    const wanted = requestId(id);
    return withSession(place, async ({ standingApprovals }) => {
      const result = await standingApprovals.revoke(wanted, by);
      output.result(result, () => standingLines(result));
      return EXIT.done;
    });
  },
};
