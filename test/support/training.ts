/** Training requests in the states that tests start from. */
import { submitUserDeletion, type SubmittedUserDeletion } from '../../src/client/user-deletions.js';
import type { RequestRow, StageRow } from '../../src/requests/request.js';
import { until, type Workplace } from './cli.js';

export const B = '00000000-0000-0000-0000-00000000000b';
export const C = '00000000-0000-0000-0000-00000000000c';

let last = 0;

/** A new request, by anna. */
export function submitted({ database }: Workplace): Promise<SubmittedUserDeletion> {
  last += 1;
  return submitUserDeletion(database, { target: `demo:test-${last}`, requestedBy: 'anna' });
}

/** A new request, approved by ben. */
export async function approved(workplace: Workplace): Promise<string> {
  const { id, inventory_digest } = await submitted(workplace);
  await workplace.record.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest });
  return id;
}

/** Runs a request as another executor would. */
export async function run({ record }: Workplace, requestId: string, budget?: number): Promise<void> {
  const { signal } = new AbortController();
  const end = await record.run(requestId, { executorId: 'test', signal, ...(budget === undefined ? {} : { budget }) });
  if (end.kind === 'error') throw end.error;
}

export async function requestOf(workplace: Workplace, id: string): Promise<RequestRow> {
  const [row] = await workplace.sql<RequestRow>('SELECT * FROM entity_deletion_requests WHERE id = $1', [id]);
  if (row === undefined) throw new Error(`There is no request ${id}.`);
  return row;
}

/** In the order in which they were made. */
export function stagesOf(workplace: Workplace, id: string): Promise<readonly StageRow[]> {
  return workplace.sql<StageRow>('SELECT * FROM entity_deletion_stage_history WHERE request_id = $1 ORDER BY id', [id]);
}

/** Each stage in a word or two: `purge_db B completed`, with a star on the current one. */
export async function path(workplace: Workplace, id: string): Promise<readonly string[]> {
  const names = new Map([
    [B, ' B'],
    [C, ' C'],
  ]);
  return (await stagesOf(workplace, id)).map(
    ({ stage, target_community_id, status, is_current }) =>
      `${stage}${names.get(target_community_id ?? '') ?? ''} ${status}${is_current ? '*' : ''}`,
  );
}

/** Waits until a handler of the request is at work. */
export function atWork(workplace: Workplace, id: string): Promise<StageRow> {
  return until(async () => (await stagesOf(workplace, id)).find(({ status }) => status === 'running'));
}
