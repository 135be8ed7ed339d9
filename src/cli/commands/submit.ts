import type { SubmittedErasure, SubmitOptions } from '../../client/erasures.js';
import type { JsonObject } from '../../storage/json.js';
import { time } from '../arguments.js';
import { type CommandSpec, optional, required } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { inventorySummary, inventoryTable } from '../inventory-lines.js';
import { withSession } from '../session.js';
import { subjectFile } from '../subject-file.js';
import { submitFile } from '../submit-file.js';
import { readSubject, type SubjectOptions, subjectOptions } from '../subject-words.js';
import { indent, moment, pairs } from '../table.js';

interface Options extends SubjectOptions {
  readonly requestedBy: string;
  readonly reasonCode?: string;
  readonly idempotencyKey?: string;
  readonly due?: string;
  readonly dryRun?: true;
  readonly from?: string;
  readonly format?: string;
}

export const submit: CommandSpec<Options> = {
  usage: 'submit',
  summary: "count what a subject's deletion would delete, and record it for approval",
  options: [
    ...subjectOptions(),
    required('--requested-by <id>', "the operator's id; self where the person asked"),
    optional('--reason-code <code>', 'why, as a code such as MAIL_REQUEST'),
    optional('--idempotency-key <key>', 'repeating the command with its key gives the same request'),
    optional('--due <time>', 'when it has to be done, such as 2026-01-31T18:00:00Z'),
    optional('--dry-run', 'count and print, and record nothing; with --from: check every line'),
    optional(
      '--from <file>',
      'a batch: many subjects, as CSV whose header names the identifiers, or one JSON object a line',
    ).conflicts(['subject', 'subjectStdin']),
    optional('--format <format>', 'csv or ndjson; by default what the name of the file ends in'),
  ],
  examples: [
    'submit --subject customerId=42 --requested-by anna --reason-code MAIL_REQUEST',
    'submit --subject-stdin --requested-by anna --dry-run < subject.json',
    'submit --from closed-accounts.csv --requested-by anna --reason-code ACCOUNTS_CLOSED',
  ],
  async run(_args, options, { output, place }) {
    const submitted = submitOptions(options);
    if (options.from !== undefined) {
      const source = subjectFile(options.from, options.format);
      return submitFile(source, { ...submitted, dryRun: options.dryRun === true }, output, place);
    }
    const subject = await readSubject(options);
    return withSession(place, async (client) => {
      if (options.dryRun === true) {
        const inventory = await client.preview(subject);
        output.result(inventory, () => inventoryLines(inventory));
        output.tell('Nothing was recorded.');
      } else {
        const request = await client.submit(subject, submitted);
        output.result(request, () => forPeople(request));
      }
      return EXIT.done;
    });
  },
};

function submitOptions({ requestedBy, reasonCode, idempotencyKey, due }: Options): SubmitOptions {
  return {
    requestedBy,
    ...(reasonCode === undefined ? {} : { reasonCode }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    ...(due === undefined ? {} : { dueAt: time('--due', due) }),
  };
}

function forPeople(request: SubmittedErasure): string {
  const summary = pairs([
    ['request', request.id],
    ['status', request.status],
    ['due', request.due_at === null ? null : moment(request.due_at)],
    ['digest', request.inventory_digest],
  ]);
  return `${summary}\n${inventoryLines(request.inventory)}`;
}

/** @param inventory - of an erasure. */
export function inventoryLines(inventory: SubmittedErasure['inventory']): string {
  const json = inventory as unknown as JsonObject;
  return `${pairs([['inventory', inventorySummary(json)]])}\n${indent(inventoryTable(json))}`;
}
