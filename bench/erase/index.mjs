/** Erasing ten thousand subjects from a PostgreSQL target, against a script by hand. */
import { fileURLToPath } from 'node:url';
import { contest } from '../measure/contest.mjs';
import { withOwnServer } from '../measure/own-server.mjs';
import { record, summarise, table } from '../measure/report.mjs';

const module = (name) => fileURLToPath(new URL(`${name}.mjs`, import.meta.url));

export async function run({ rounds, scale, record: isRecorded }) {
  const subjects = Math.max(100, Math.round(10_000 * scale));
  const work = { customers: subjects * 10, subjects, batch: 1_000, limit: 50_000 };
  await withOwnServer(async (url) => {
    const answers = await contest(
      [
        { name: 'Expunge, subjects erased and verified', module: module('expunge'), work },
        { name: 'script by hand, subjects erased and verified', module: module('script'), work },
      ],
      { url, rounds },
    );
    const rows = summarise(answers);
    const calls = Math.max(...answers.get(rows[0].name).map(({ facts }) => facts.mostCalls));
    const ratios = [
      { text: "Expunge's time to the script's", value: rows[1].rate / rows[0].rate, goal: 'at most 1.3' },
      { text: 'calls of the statement that was sent most often', value: calls, goal: 'at most 40' },
    ];
    console.log(table(rows));
    console.log(
      ratios.map(({ text, value, goal }) => `${value.toFixed(2).padStart(8)}  ${text} (goal: ${goal})`).join('\n'),
    );
    if (isRecorded) await record({ name: 'erase', url, rounds, scale, rows, ratios, chart: rows });
  });
}
