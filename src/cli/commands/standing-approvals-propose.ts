import { time, wholeNumber } from '../arguments.js';
import { type CommandSpec, required } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { withSession } from '../session.js';
import { standingLines } from '../standing-lines.js';

interface Options {
  readonly by: string;
  readonly rows: string;
  readonly perDay: string;
  readonly until: string;
}

/** WF-8. */
export const standingApprovalsPropose: CommandSpec<Options> = {
  usage: 'propose',
  summary: 'propose an approval for requests to come, under the present plans; two different people have to approve it',
  options: [
    required('--by <id>', "the operator's id"),
    required('--rows <number>', 'copies that one request may count'),
    required('--per-day <number>', 'requests that it may approve in any 24 hours'),
    required('--until <time>', 'when it expires, such as 2026-06-30T00:00:00Z'),
  ],
  examples: ['propose --by anna --rows 500 --per-day 200 --until 2026-06-30T00:00:00Z'],
  async run(_args, options, { output, place }) {
    const input = {
      proposedBy: options.by,
      rowsPerRequest: wholeNumber('--rows', options.rows, 0, Number.MAX_SAFE_INTEGER),
      requestsPerDay: wholeNumber('--per-day', options.perDay, 1, 2_147_483_647),
      expiresAt: time('--until', options.until),
    };
    return withSession(place, async ({ standingApprovals }) => {
      const proposed = await standingApprovals.propose(input);
      output.result(proposed, () => standingLines(proposed));
      return EXIT.done;
    });
  },
};
