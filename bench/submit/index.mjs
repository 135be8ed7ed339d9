/** Submitting a hundred thousand requests from a file. */
import { fileURLToPath } from 'node:url';
import { contest } from '../measure/contest.mjs';
import { record, summarise, table } from '../measure/report.mjs';

const module = fileURLToPath(new URL('expunge.mjs', import.meta.url));

export async function run({ url, rounds, scale, record: isRecorded }) {
  const subjects = Math.max(100, Math.round(100_000 * scale));
  const work = { subjects, customers: 10_000 };
  const rows = summarise(
    await contest([{ name: 'Expunge, requests submitted from a file', module, work }], {
      url,
      rounds: Math.min(rounds, 3),
    }),
  );
  const ratios = [{ text: 'requests a second', value: rows[0].rate, goal: 'at least 5,000' }];
  console.log(table(rows));
  if (isRecorded) await record({ name: 'submit', url, rounds: Math.min(rounds, 3), scale, rows, ratios, chart: rows });
}
