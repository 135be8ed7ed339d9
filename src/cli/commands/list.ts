import type { RequestRow, RequestStatus } from '../../requests/request.js';
import { oneOf, requestId, wholeNumber } from '../arguments.js';
import { type CommandSpec, type Context, optional } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { whyOf } from '../request-lines.js';
import { withSession } from '../session.js';
import { moment, table } from '../table.js';

export interface ListOptions {
  readonly status?: string;
  readonly batch?: string;
  readonly limit: string;
}

const MOST = 10_000;

/** OP-8. */
export const list: CommandSpec<ListOptions> = {
  usage: 'list',
  summary: 'show requests of every workflow, newest first, and what each waits for',
  options: [...listOptions(), optional('--batch <id>', 'only members of this batch')],
  examples: [
    'list --status blocked',
    'list --batch 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --status blocked',
    "list --limit 1000 --json | jq -r '.[].id'",
  ],
  run: (_args, options, context) => listRequests(null, options, context),
};

export function listOptions() {
  return [
    optional('--status <status>', 'only those in this status, such as blocked or awaiting_approval'),
    optional('--limit <number>', 'at most so many').default('50'),
  ];
}

/** @param workflow - null for all. */
export async function listRequests(
  workflow: string | null,
  options: ListOptions,
  { output, place }: Context,
): Promise<number> {
  const limit = wholeNumber('--limit', options.limit, 1, MOST);
  const status = await statusOf(options.status);
  const batch = options.batch === undefined ? {} : { batch: requestId(options.batch) };
  return withSession(place, async ({ requests }) => {
    const rows = await requests.list({ workflow, status, ...batch, limit });
    output.result(rows, () => table(['REQUEST', 'WORKFLOW', 'STATUS', 'CREATED', 'ABOUT'], rows.map(lineOf)));
    if (rows.length === limit) output.tell(`There may be more than ${limit}: --limit shows them.`);
    return EXIT.done;
  });
}

async function statusOf(text: string | undefined): Promise<RequestStatus | null> {
  if (text === undefined) return null;
  const { REQUEST_STATUSES } = await import('../../requests/request.js');
  return oneOf('--status', text, REQUEST_STATUSES);
}

function lineOf(row: RequestRow): readonly string[] {
  const why = whyOf(row);
  return [
    row.id,
    row.workflow,
    row.status,
    moment(row.created_at),
    row.target === null ? why : `${row.target}: ${why}`,
  ];
}
