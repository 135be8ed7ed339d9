import type { ShownRequest } from '../../client/record.js';
import type { StageRow } from '../../requests/request.js';
import { requestId } from '../arguments.js';
import type { CommandSpec } from '../command.js';
import { batchLines } from '../batch-lines.js';
import { EXIT } from '../exit-codes.js';
import { inventoryTable } from '../inventory-lines.js';
import type { Style } from '../output.js';
import { whyOf } from '../request-lines.js';
import { withSession } from '../session.js';
import { indent, moment, pairs, table } from '../table.js';

/** OP-8. */
export const show: CommandSpec = {
  usage: 'show <id>',
  summary:
    'show a batch, or a request, its inventory, its approvals, and its stages in order with the decision of each',
  options: [],
  examples: [
    'show 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f',
    'show 01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f --json | jq -r .request.status',
  ],
  async run([id], _options, { output, place }) {
    const wanted = requestId(id);
    return withSession(place, async ({ requests, batches }) => {
      if (await batches.has(wanted)) {
        const batch = await batches.show(wanted);
        output.result(batch, (style) => batchLines(batch, style));
        return EXIT.done;
      }
      const shown = await requests.show(wanted);
      output.result(withDecisions(shown), (style) => forPeople(shown, style));
      return EXIT.done;
    });
  },
};

/** The decision stands in the stage's metadata; beside it nobody has to know where. */
function withDecisions(shown: ShownRequest) {
  return { ...shown, stages: shown.stages.map((stage) => ({ ...stage, decision: decisionOf(stage) })) };
}

function decisionOf(stage: StageRow): string | null {
  const decision = stage.metadata_json.transition?.['decision'];
  return typeof decision === 'string' ? decision : null;
}

function forPeople(shown: ShownRequest, style: Style): string {
  const { request, inventories, approvals, stages, orders } = shown;
  const current = inventories.find(({ inventory_digest }) => inventory_digest === request.inventory_digest);
  return [
    pairs([
      ['request', request.id],
      ['workflow', `${request.workflow} ${request.workflow_version}`],
      ['target', request.target],
      ['subject', request.subject_reference],
      ['status', `${request.status}, ${whyOf(request)}`],
      [
        'requested',
        `${moment(request.created_at)} by ${request.requested_by}${request.reason_code === null ? '' : `, ${request.reason_code}`}`,
      ],
      ['due', request.due_at === null ? null : moment(request.due_at)],
      ['batch', request.batch_id === null ? null : `${request.batch_id}, line ${request.batch_position ?? 0}`],
      ['inventory', current === undefined ? null : `revision ${current.revision}`],
      ['digest', request.inventory_digest],
    ]),
    current === undefined ? '' : indent(inventoryTable(current.inventory)),
    section(
      style,
      `Approvals (${approvals.length}, required ${request.approvals_required})`,
      table(
        ['APPROVED BY', 'AT', 'DIGEST'],
        approvals.map((it) => [it.approved_by, moment(it.approved_at), it.inventory_digest]),
      ),
    ),
    section(
      style,
      'Stages',
      table(['STAGE', 'PLACE', 'STATUS', 'STARTED', 'FINISHED', 'TRIES', 'DECISION'], stages.map(stageLine)),
    ),
    section(
      style,
      'Orders',
      table(
        ['ORDER', 'BY', 'AT', 'UNTIL', 'ENDED', 'REASON'],
        orders.map((it) => [
          it.kind,
          it.ordered_by,
          moment(it.ordered_at),
          moment(it.until),
          moment(it.ended_at),
          it.reason ?? '-',
        ]),
      ),
    ),
  ]
    .filter((part) => part !== '')
    .join('\n');
}

function section(style: Style, heading: string, content: string): string {
  return content === '' ? '' : `\n${style('bold', heading)}\n${indent(content)}`;
}

function stageLine(stage: StageRow): readonly string[] {
  return [
    stage.stage,
    stage.target_community_id ?? '-',
    stage.is_current ? `${stage.status}, current` : stage.status,
    moment(stage.started_at),
    moment(stage.finished_at),
    String(stage.attempts),
    decisionOf(stage) ?? stage.last_error ?? '-',
  ];
}
