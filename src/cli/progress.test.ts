import { expect, test } from 'vitest';
import { silentLog } from '../observe/log.js';
import type { StageRow } from '../requests/request.js';
import type { OutcomeToSave } from '../requests/save-outcomes.js';
import { observe } from './progress.js';

const stage: StageRow = {
  id: '01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f',
  request_id: '01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e80',
  stage: 'erase',
  target_community_id: 'operational',
  status: 'running',
  is_current: true,
  started_at: null,
  finished_at: null,
  attempts: 1,
  metadata_json: { inputs: {}, previous_stage_id: null },
  last_error: null,
};

/** The last line that a terminal shows once the stage is saved. */
function lineOf(outcome: OutcomeToSave['outcome']): string {
  let written = '';
  const stream = { isTTY: true, hasColors: () => false, write: (text: string) => (written += text) };
  const observer = observe(silentLog, stream as unknown as NodeJS.WriteStream);
  observer.stageStarted?.(stage);
  expect(written).toMatch(/^ {2}erase operational +running +$/);
  observer.stageSaved?.(stage, outcome);
  return written.slice(written.lastIndexOf('\r') + 1).trimEnd();
}

test('a finished erase says what was done with what was counted', () => {
  const places = [
    { place: 'customer', action: 'delete', counted: 1, retained: 0, superseded: 0 },
    { place: 'visit', action: 'delete', counted: 28, retained: 0, superseded: 0 },
    { place: 'invoice', action: 'anonymize', counted: 15, retained: 2, superseded: 1 },
    { place: 'invoice_line', action: 'retain', counted: 4, retained: 4, superseded: 0 },
  ];
  expect(lineOf({ kind: 'completed', result: { state: 'done', places } })).toMatch(
    /^ {2}erase operational +done +\d+\.\d s {3}29 deleted, 12 anonymized, 6 retained, 1 superseded$/,
  );
});

test('a visit that did not finish says so, and why', () => {
  expect(lineOf({ kind: 'completed', result: { state: 'postponed', why: 'the table is locked' } })).toMatch(
    /postponed .* the table is locked$/,
  );
  expect(lineOf({ kind: 'completed', result: { state: 'failed', error: 'HTTP_503', retryable: true } })).toMatch(
    /failed .* HTTP_503$/,
  );
  expect(lineOf({ kind: 'failed', error: 'E1: broken', retryable: true })).toMatch(/failed .* E1: broken$/);
});

test('any other result says its numbers and answers', () => {
  expect(lineOf({ kind: 'completed', result: { has_agents: true, note: 'not shown' } })).toMatch(
    /done .* has_agents true$/,
  );
});
