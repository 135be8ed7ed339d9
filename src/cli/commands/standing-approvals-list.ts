import type { CommandSpec } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { withSession } from '../session.js';
import { moment, table } from '../table.js';

/** WF-8. */
export const standingApprovalsList: CommandSpec = {
  usage: 'list',
  summary: 'show standing approvals, newest first, and what they have approved',
  options: [],
  examples: ['list'],
  async run(_args, _options, { output, place }) {
    return withSession(place, async ({ standingApprovals }) => {
      const all = await standingApprovals.list();
      output.result(all, () =>
        table(
          ['STANDING APPROVAL', 'STATE', 'EXPIRES', 'ROWS', 'PER DAY', 'TODAY', 'APPROVED BY'],
          all.map((it) => [
            it.id,
            it.state,
            moment(it.expires_at),
            String(it.rows_per_request),
            String(it.requests_per_day),
            String(it.approved_today),
            it.approved_by.join(', ') || '-',
          ]),
        ),
      );
      return EXIT.done;
    });
  },
};
