import { requestId } from '../arguments.js';
import { type CommandSpec, required } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { withSession } from '../session.js';
import { standingLines } from '../standing-lines.js';

/** WF-8. */
export const standingApprovalsApprove: CommandSpec<{ readonly by: string }> = {
  usage: 'approve <id>',
  summary: 'consent to a standing approval as one of two different people',
  options: [required('--by <id>', "the operator's id")],
  examples: ['approve 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --by ben'],
  async run([id], { by }, { output, place }) {
    const wanted = requestId(id);
    return withSession(place, async ({ standingApprovals }) => {
      const result = await standingApprovals.approve(wanted, by);
      output.result(result, () => standingLines(result));
      return EXIT.done;
    });
  },
};
