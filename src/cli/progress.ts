/** How a run goes on: on a terminal one line a stage, and in the log for whoever asks for `EXPUNGE_LOG=info`. */
import type { RunObserver } from '../engine/advance.js';
import type { StageRow } from '../requests/request.js';
import type { OutcomeToSave } from '../requests/save-outcomes.js';
import type { JsonObject } from '../storage/json.js';
import type { Log } from '../observe/log.js';
import { styleFor } from './output.js';

type SavedOutcome = OutcomeToSave['outcome'];

const NAME_WIDTH = 40;

/** What to give a run: the log, and the terminal where somebody watches. */
export function observe(log: Log, isWatched: boolean): RunObserver {
  const terminal = isWatched ? showProgress() : {};
  return {
    stageStarted(stage) {
      log.info('stage_started', fieldsOf(stage));
      terminal.stageStarted?.(stage);
    },
    stageSaved(stage, outcome) {
      log.info(`stage_${outcome.kind}`, fieldsOf(stage));
      terminal.stageSaved?.(stage, outcome);
    },
  };
}

function fieldsOf({ id, request_id, stage, target_community_id }: StageRow) {
  return {
    ...{ requestId: request_id, stageId: id, stage },
    ...(target_community_id === null ? {} : { place: target_community_id }),
  };
}

/** Writes to standard error. One stage runs at a time; its line is written over when it is done. */
function showProgress(stream: NodeJS.WriteStream = process.stderr): RunObserver {
  const style = styleFor(stream);
  let startedAt = performance.now();
  return {
    stageStarted(stage) {
      startedAt = performance.now();
      stream.write(`  ${nameOf(stage)} ${style('cyan', 'running'.padEnd(10))}`);
    },
    stageSaved(stage, outcome) {
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
      const word = style(outcome.kind === 'completed' ? 'green' : 'yellow', wordOf(outcome).padEnd(10));
      stream.write(`\r  ${nameOf(stage)} ${word} ${seconds.padStart(6)} s   ${detailOf(outcome)}\n`);
    },
  };
}

function nameOf({ stage, target_community_id }: StageRow): string {
  return `${stage}${target_community_id === null ? '' : ` ${target_community_id}`}`.padEnd(NAME_WIDTH);
}

function wordOf(outcome: SavedOutcome): string {
  if (outcome.kind !== 'completed') return outcome.kind;
  const { state } = outcome.result;
  return typeof state === 'string' && state !== 'complete' ? state : 'done';
}

function detailOf(outcome: SavedOutcome): string {
  switch (outcome.kind) {
    case 'completed':
      return summarise(outcome.result);
    case 'failed':
      return outcome.error;
    case 'postponed':
    case 'revised':
      return outcome.why;
  }
}

/** The flat values of a result: `has_agents true`. */
function summarise(result: JsonObject): string {
  return Object.entries(result)
    .filter(([name, value]) => name !== 'state' && ['string', 'number', 'boolean'].includes(typeof value))
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(', ');
}
