/**
 * Adds up what vitest's JSON reports in a directory say, and prints it as one line: `N passed, N failed`, with `, N skipped`
 * where tests were skipped. A test file that failed before its first test counts as one failure.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** @typedef {{ testResults: { status: string, assertionResults: { status: string }[] }[] }} Report */

const directory = process.argv[2];
if (directory === undefined) throw new Error('usage: node scripts/count-tests.mjs DIRECTORY');

const count = { passed: 0, failed: 0, skipped: 0 };
for (const name of readdirSync(directory)) {
  const report = /** @type {Report} */ (JSON.parse(readFileSync(join(directory, name), 'utf8')));
  for (const file of report.testResults) {
    const outcomes = file.assertionResults.map((test) => test.status);
    if (file.status === 'failed' && !outcomes.includes('failed')) count.failed += 1;
    for (const outcome of outcomes) {
      if (outcome === 'passed') count.passed += 1;
      else if (outcome === 'failed') count.failed += 1;
      else count.skipped += 1;
    }
  }
}
const skipped = count.skipped > 0 ? `, ${count.skipped} skipped` : '';
console.log(`${count.passed} passed, ${count.failed} failed${skipped}`);
