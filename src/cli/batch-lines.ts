/** A batch for people. */
import type { ShownBatch } from '../client/batches.js';
import type { BatchApprovalResult } from '../requests/approve-batch.js';
import type { Style } from './output.js';
import { indent, moment, pairs, table } from './table.js';

/** So many refused members and omitted lines are printed; `--json` has more. */
const SHOWN = 10;

export function batchLines(batch: ShownBatch, style: Style): string {
  const { blocked, omissions, approvals } = batch;
  return [
    pairs([
      ['batch', batch.id],
      ['status', batch.state === 'open' ? 'open: repeat the same submit, which goes on from there' : countsOf(batch)],
      [
        'requested',
        `${moment(batch.created_at)} by ${batch.requested_by}${batch.reason_code === null ? '' : `, ${batch.reason_code}`}`,
      ],
      ['members', `${batch.members}, ${batch.copies} copies`],
      ['refused', String(batch.refused)],
      ['left out', String(batch.left_out)],
      ['digest', batch.digest],
    ]),
    section(
      style,
      'Approvals',
      table(
        ['APPROVED BY', 'AT', 'MEMBERS'],
        approvals.map((it) => [it.approved_by, moment(it.first_at), String(it.members)]),
      ),
    ),
    section(
      style,
      `Blocked (${batch.statuses.blocked ?? 0})`,
      table(
        ['LINE', 'REQUEST', 'WHY'],
        blocked.slice(0, SHOWN).map((it) => [String(it.position), it.request_id, it.reason ?? 'no reason saved']),
      ),
    ),
    section(
      style,
      `Left out (${batch.left_out})`,
      table(
        ['LINE', 'REQUEST', 'WHY'],
        omissions
          .slice(0, SHOWN)
          .map((it) => [
            String(it.position),
            it.request_id,
            it.twice ? 'stands twice in the batch' : 'has a live request already',
          ]),
      ),
    ),
  ]
    .filter((part) => part !== '')
    .join('\n');
}

export function approvalLines(result: BatchApprovalResult): string {
  return pairs([
    ['batch', result.batch_id],
    ['approved', `${result.approved} members`],
    ['ready', result.ready === result.approved ? null : `${result.ready}; the others need another approval`],
    ['left out', words(result.left_out)],
  ]);
}

function countsOf({ statuses }: ShownBatch): string {
  return words(statuses) || 'nobody is in it';
}

function words(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([what, count]) => `${count} ${what}`)
    .join(', ');
}

function section(style: Style, heading: string, content: string): string {
  return content === '' ? '' : `\n${style('bold', heading)}\n${indent(content)}`;
}
