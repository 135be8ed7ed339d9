import { requestId } from '../arguments.js';
import { type CommandSpec, required } from '../command.js';
import { approvalLines } from '../batch-lines.js';
import { EXIT } from '../exit-codes.js';
import { withSession } from '../session.js';
import { pairs } from '../table.js';

interface Options {
  readonly approvedBy: string;
  readonly inventoryDigest: string;
}

/** OP-3. */
export const approve: CommandSpec<Options> = {
  usage: 'approve <id>',
  summary: 'consent, as a second person, to exactly the inventory, or the whole batch, with this digest',
  options: [
    required('--approved-by <id>', "the operator's id; not the requester's"),
    required('--inventory-digest <hex>', 'of the inventory or the batch that was reviewed, as expunge show prints it'),
  ],
  examples: ['approve 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --approved-by ben --inventory-digest 9f2c…e1'],
  async run([id], options, { output, place }) {
    const approval = {
      requestId: requestId(id),
      approvedBy: options.approvedBy,
      inventoryDigest: options.inventoryDigest,
    };
    return withSession(place, async ({ requests, batches }) => {
      if (await batches.has(approval.requestId)) {
        const { requestId: batchId, approvedBy, inventoryDigest: digest } = approval;
        const approved = await batches.approve({ batchId, approvedBy, digest });
        output.result(approved, () => approvalLines(approved));
        return EXIT.done;
      }
      const result = await requests.approve(approval);
      output.result(result, () =>
        pairs([
          ['request', result.request_id],
          ['status', result.status],
          ['approvals', `${result.approvals} of ${result.approvals_required}`],
        ]),
      );
      return EXIT.done;
    });
  },
};
