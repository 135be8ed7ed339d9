/**
 * Runs contestants in turn, round after round, so that whatever changes on the machine meets all of them. Each runs in a
 * process and a database of its own.
 */
import { fork } from 'node:child_process';
import { settle, withDatabase } from './server.mjs';

/**
 * @param contestants - `{ name, module, work }`: the module is run as a process, which answers with one message.
 * @returns by name, the answers in the order of the rounds.
 */
export async function contest(contestants, { url, rounds }) {
  const answers = new Map(contestants.map(({ name }) => [name, []]));
  for (let round = 1; round <= rounds; round += 1) {
    for (const { name, module, work } of contestants) {
      const answer = await withDatabase(url, async (database) => {
        await settle(url);
        return runProcess(module, { url: database, ...work });
      });
      answers.get(name).push(answer);
      console.error(`round ${round}/${rounds}  ${name.padEnd(44)} ${describe(answer)}`);
    }
  }
  return answers;
}

function runProcess(module, input) {
  return new Promise((resolve, reject) => {
    const child = fork(module, [JSON.stringify(input)], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    let answer;
    child.on('message', (message) => {
      answer = message;
    });
    child.on('error', reject);
    child.on('exit', (code, signal) => {
      if (code === 0 && answer !== undefined) resolve(answer);
      else reject(new Error(`${module} ended with ${signal ?? code} and ${answer === undefined ? 'no' : 'an'} answer`));
    });
  });
}

function describe({ units, seconds, memoryMb }) {
  return `${Math.round(units / seconds).toLocaleString('en')} per second, ${memoryMb} MB`;
}

export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
