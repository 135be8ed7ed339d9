/** How a run goes on: on a terminal one line a stage, and in the log for whoever asks for `EXPUNGE_LOG=info`. */
import type { RunObserver } from '../engine/advance.js';
import type { StageRow } from '../requests/request.js';
import type { OutcomeToSave } from '../requests/save-outcomes.js';
import type { JsonObject, JsonValue } from '../storage/json.js';
import type { Log } from '../observe/log.js';
import { styleFor } from './output.js';

type SavedOutcome = OutcomeToSave['outcome'];

const NAME_WIDTH = 40;

/**
 * What to give a run.
 * @param watched - the terminal that somebody watches; null where nobody does.
 */
export function observe(log: Log, watched: NodeJS.WriteStream | null): RunObserver {
  const terminal: RunObserver = watched === null ? {} : showProgress(watched);
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

/** One stage runs at a time; its line is written over when it is done. */
function showProgress(stream: NodeJS.WriteStream): RunObserver {
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

/** What a result says in numbers: `29 deleted, 12 anonymized`, `has_agents true`; of a visit that did not finish, why. */
function summarise(result: JsonObject): string {
  const { places, why, error } = result;
  if (typeof why === 'string') return why;
  if (typeof error === 'string') return error;
  if (Array.isArray(places)) return sums(places as readonly JsonObject[]);
  return Object.entries(result)
    .flatMap(([name, value]) => (typeof value === 'number' || typeof value === 'boolean' ? [`${name} ${value}`] : []))
    .join(', ');
}

const DONE_BY: Readonly<Record<string, string>> = {
  delete: 'deleted',
  anonymize: 'anonymized',
  pseudonymize: 'pseudonymized',
};

/** Of what was counted in each place, what was done with it; what has to stay, or belongs to somebody new, was not. */
function sums(places: readonly JsonObject[]): string {
  const totals = new Map<string, number>();
  const add = (word: string, count: number): void => {
    if (count > 0) totals.set(word, (totals.get(word) ?? 0) + count);
  };
  for (const { action, counted, retained, superseded } of places) {
    const kept = numberOf(retained) + numberOf(superseded);
    add(
      (typeof action === 'string' ? DONE_BY[action] : undefined) ?? 'done',
      action === 'retain' ? 0 : numberOf(counted) - kept,
    );
    add('retained', numberOf(retained));
    add('superseded', numberOf(superseded));
  }
  return [...totals].map(([word, total]) => `${total} ${word}`).join(', ');
}

function numberOf(value: JsonValue | undefined): number {
  return typeof value === 'number' ? value : 0;
}
