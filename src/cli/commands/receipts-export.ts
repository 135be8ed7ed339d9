import { requestId } from '../arguments.js';
import type { CommandSpec } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { withSession } from '../session.js';

/** WF-22: what `receipts verify` reads. The same text on a terminal and in a file, because it is evidence. */
export const receiptsExport: CommandSpec = {
  usage: 'export <id>',
  summary: "print a request's signed receipts, for whoever verifies them",
  options: [],
  examples: ['export 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f > receipts.json'],
  async run([id], _options, { output, place }) {
    const request = requestId(id);
    return withSession(place, async (client) => {
      output.text(await client.exportReceipts(request));
      return EXIT.done;
    });
  },
};
