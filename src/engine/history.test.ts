import { describe, expect, test } from 'vitest';
import type { StageMetadata, StageRow } from '../requests/request.js';
import { RecordIntegrityError } from '../requests/request-error.js';
import { LONGEST_HISTORY, type Snapshot } from '../requests/snapshot.js';
import { inChainOrder, rebuildHistory } from './history.js';

const REQUEST = '01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f';
const DIGEST = 'd'.repeat(64);

/** A chain of this many stages, the last one current; rows are named s0, s1, … and listed in no order. */
function chain(length: number): StageRow[] {
  return Array.from({ length }, (_, index): StageRow => {
    const isLast = index === length - 1;
    return {
      id: `s${index}`,
      request_id: REQUEST,
      stage: `stage-${index}`,
      target_community_id: index === 0 ? null : `place-${index}`,
      status: 'completed',
      is_current: isLast,
      // As a clock would have it that was set back: nothing may go by it (EX-9).
      started_at: new Date(1_000_000 - index),
      finished_at: new Date(1_000_000 - index),
      attempts: 1,
      metadata_json: {
        inputs: { inventory_digest: DIGEST },
        result: {},
        previous_stage_id: index === 0 ? null : `s${index - 1}`,
        ...(isLast ? {} : { transition: { next: { stage: `stage-${index + 1}`, place: `place-${index + 1}` } } }),
      },
      last_error: null,
    };
  }).reverse();
}

function snapshotOf(stages: readonly StageRow[]): Snapshot {
  const inventory = { request_id: REQUEST, revision: 1, inventory: { version: 1 }, inventory_digest: DIGEST };
  return {
    request: { id: REQUEST },
    now: new Date(0),
    inventories: [inventory],
    stages,
    orders: [],
  } as unknown as Snapshot;
}

function change(rows: readonly StageRow[], id: string, by: Partial<StageRow>): StageRow[] {
  return rows.map((row) => (row.id === id ? { ...row, ...by } : row));
}

function changeMetadata(rows: readonly StageRow[], id: string, by: Partial<StageMetadata> | null): StageRow[] {
  return rows.map((row) =>
    row.id === id
      ? { ...row, metadata_json: (by === null ? null : { ...row.metadata_json, ...by }) as StageMetadata }
      : row,
  );
}

function without(rows: readonly StageRow[], id: string, part: keyof StageMetadata): StageRow[] {
  return rows.map((row) => {
    if (row.id !== id) return row;
    const { [part]: _removed, ...metadata_json } = row.metadata_json;
    return { ...row, metadata_json: metadata_json as StageMetadata };
  });
}

test('EX-9: history follows the chain of ids, neither timestamps nor the order of rows', () => {
  expect(rebuildHistory(snapshotOf(chain(5))).map(({ id }) => id)).toEqual(['s0', 's1', 's2', 's3', 's4']);
  expect(rebuildHistory(snapshotOf([]))).toEqual([]);
});

test('a record is plain values, with the inventory that its stage was made under', () => {
  const [first] = rebuildHistory(snapshotOf(chain(1)));
  expect(first).toMatchObject({ id: 's0', stage: 'stage-0', place: null, inventory: { version: 1 }, result: {} });
});

describe('EX-11: rows that do not fit are an error that names one of them', () => {
  const rows = chain(4);
  test.each<[string, readonly StageRow[], string, string]>([
    [
      'two first stages',
      changeMetadata(rows, 's2', { previous_stage_id: null }),
      's',
      'has the same previous stage as',
    ],
    ['a fork', changeMetadata(rows, 's3', { previous_stage_id: 's1' }), 's', 'has the same previous stage as'],
    ['a row that is gone', rows.filter(({ id }) => id !== 's1'), 's2', 'is not connected'],
    [
      'an unknown predecessor',
      changeMetadata(rows, 's3', { previous_stage_id: 'elsewhere' }),
      's3',
      'is not connected',
    ],
    [
      'a stage that precedes itself',
      changeMetadata(rows, 's3', { previous_stage_id: 's3' }),
      's3',
      'is part of a circle',
    ],
    [
      'a circle beside the chain',
      changeMetadata(changeMetadata(rows, 's2', { previous_stage_id: 's3' }), 's3', { previous_stage_id: 's2' }),
      's',
      'is part of a circle',
    ],
    ['nothing but a circle', changeMetadata(rows, 's0', { previous_stage_id: 's3' }), 's', 'is part of a circle'],
    ['no predecessor given', without(rows, 's0', 'previous_stage_id'), 's0', 'does not say which stage came before'],
    ['metadata that is null', changeMetadata(rows, 's1', null), 's1', 'metadata that is no object'],
    ['inputs that are no object', changeMetadata(rows, 's1', { inputs: [] as never }), 's1', 'has no inputs'],
    [
      'a result that is no object',
      changeMetadata(rows, 's1', { result: 'fine' as never }),
      's1',
      'a result that is no object',
    ],
    ['a missing result', without(rows, 's1', 'result'), 's1', 'is completed and has no result'],
    ['a missing result of the current stage', without(rows, 's3', 'result'), 's3', 'is completed and has no result'],
    ['a stage that was left unfinished', change(rows, 's1', { status: 'running' }), 's1', 'is running and was left'],
    ['a missing decision', without(rows, 's1', 'transition'), 's1', 'was left and has no decision'],
    [
      'a decision for another stage',
      changeMetadata(rows, 's1', { transition: { next: { stage: 'x', place: 'place-2' } } }),
      's1',
      'is not what followed',
    ],
    [
      'a decision for another place',
      changeMetadata(rows, 's1', { transition: { next: { stage: 'stage-2', place: 'x' } } }),
      's1',
      'is not what followed',
    ],
    [
      'a decision to end that did not',
      changeMetadata(rows, 's1', { transition: { next: null } }),
      's1',
      'is not what followed',
    ],
    [
      'a current stage with a decision',
      changeMetadata(rows, 's3', { transition: { next: null } }),
      's3',
      'has a decision that it was left by',
    ],
    ['EX-4: no current stage', change(rows, 's3', { is_current: false }), 's3', 'is the last and not current'],
    ['a current stage in the middle', change(rows, 's1', { is_current: true }), 's1', 'is current and not the last'],
    [
      'an inventory that nobody approved',
      changeMetadata(rows, 's2', { inputs: { inventory_digest: 'e'.repeat(64) } }),
      's2',
      'names an inventory that the request does not have',
    ],
    [
      'no inventory',
      changeMetadata(rows, 's2', { inputs: {} }),
      's2',
      'names an inventory that the request does not have',
    ],
  ])('%s', (_name, stages, stageId, message) => {
    const rebuild = () => rebuildHistory(snapshotOf(stages));
    expect(rebuild).toThrow(RecordIntegrityError);
    expect(rebuild).toThrow(message);
    expect(rebuild).toThrow(new RegExp(`^Stage ${stageId}`));
  });
});

test('EX-12: 10,000 stages are followed, one more is refused', () => {
  expect(rebuildHistory(snapshotOf(chain(LONGEST_HISTORY)))).toHaveLength(LONGEST_HISTORY);
  expect(() => rebuildHistory(snapshotOf(chain(LONGEST_HISTORY + 1)))).toThrow('more than 10000 stages');
});

test('OP-8: rows are listed in the order of their chain, those outside of it last, whatever is wrong with them', () => {
  const order = (rows: readonly StageRow[]) => inChainOrder(rows).map(({ id }) => id);
  expect(order(chain(3))).toEqual(['s0', 's1', 's2']);
  expect(order(chain(4).filter(({ id }) => id !== 's1'))).toEqual(['s0', 's3', 's2']);
  expect(order(changeMetadata(chain(2), 's1', { previous_stage_id: 's1' }))).toEqual(['s0', 's1']);
  expect(order(changeMetadata(chain(1), 's0', null))).toEqual(['s0']);
});
