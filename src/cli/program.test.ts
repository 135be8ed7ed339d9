import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { runProgram } from './program.js';

let stdout = '';
let stderr = '';

beforeEach(() => {
  stdout = '';
  stderr = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    stdout += String(text);
    return true;
  });
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    stderr += String(text);
    return true;
  });
});
afterEach(() => vi.restoreAllMocks());

const ID = '01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f';
const DIGEST = 'f'.repeat(64);

const commands = [
  ...['demo', 'init', 'migrate', 'submit', 'approve', 'run', 'worker', 'list', 'show', 'cancel', 'hold', 'unblock'],
  ...['revise', 'status', 'receipts export', 'receipts verify'],
  ...['submit', 'approve', 'run', 'list', 'show', 'cancel', 'hold', 'unblock'].map((verb) => `user-deletions ${verb}`),
];

test.each(commands)('%s --help explains it, with an example that the command line understands', async (command) => {
  expect(await runProgram([...command.split(' '), '--help'])).toBe(0);
  expect(stderr).toBe('');
  expect(stdout).toContain(`Usage: expunge ${command} `);
  expect(stdout).toMatch(/--json/);
  const examples = [...stdout.matchAll(/^ {2}expunge (.+)$/gm)].map(([, words]) => words ?? '');
  expect(examples.length).toBeGreaterThan(0);
  for (const example of examples) expect(example.startsWith(command)).toBe(true);
});

test('the list of commands has every one of them', async () => {
  expect(await runProgram(['--help'])).toBe(0);
  for (const command of commands) expect(stdout).toMatch(new RegExp(`^ {2}${command.split(' ')[0] ?? ''}\\b`, 'm'));
});

test('--version is that of the package', async () => {
  expect(await runProgram(['--version'])).toBe(0);
  expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test('OP-7: without a command the help goes to standard error, with 64', async () => {
  expect(await runProgram([])).toBe(64);
  expect(stdout).toBe('');
  expect(stderr).toContain('Usage: expunge');
  stderr = '';
  expect(await runProgram(['user-deletions'])).toBe(64);
  expect(stderr).toContain('Usage: expunge user-deletions');
});

const SOMEBODY = 'jo@example.org';

/** Whatever was typed may be an identifier of a person. */
const wrongUsages: Readonly<Record<string, readonly string[]>> = {
  'an unknown command': ['delete'],
  'an unknown command of a group': ['receipts', 'burn'],
  'an unknown option': ['list', `--subjekt=${SOMEBODY}`],
  'a missing option': ['approve', ID, '--approved-by', 'ben'],
  'a missing value': ['approve', ID, '--approved-by'],
  'a missing argument': ['show'],
  'an argument too many': ['show', ID, SOMEBODY],
  'an id that is none': ['show', SOMEBODY],
  'no id to approve': ['approve', SOMEBODY, '--approved-by', 'ben', '--inventory-digest', DIGEST],
  'a status that is none': ['list', '--status', 'deleted'],
  'a limit that is none': ['list', '--limit', '0'],
  'a limit in words': ['list', '--limit', 'ten'],
  'a delay that is negative': ['user-deletions', 'run', ID, '--stage-delay-ms=-1'],
  'a delay in parts': ['user-deletions', 'run', ID, '--stage-delay-ms', '1.5'],
  'an executor without a name': ['run', ID, '--executor-id', ' '],
  'a fault flag outside of the group': ['run', ID, '--fail-stage', 'purge_db'],
  'a time without its offset': ['hold', ID, '--by', 'ben', '--reason', 'r', '--until', '2026-01-31T18:00:00'],
  'a time that is none': ['hold', ID, '--by', 'ben', '--reason', 'r', '--until', '2026-02-31T99:00:00Z'],
  'a hold without its end': ['hold', ID, '--by', 'ben', '--reason', 'r'],
  'an end of a hold with a reason': ['hold', ID, '--by', 'ben', '--reason', 'r', '--end'],
  'a subject without a value': ['submit', '--requested-by', 'ben', '--subject', SOMEBODY],
  'a subject given twice': [
    'submit',
    '--requested-by',
    'ben',
    '--subject',
    `email=${SOMEBODY}`,
    '--subject',
    'email=x',
  ],
  'no subject': ['status'],
  'a due time that is none': ['submit', '--requested-by', 'ben', '--subject', 'a=b', '--due', 'tomorrow'],
  'too many batches': ['worker', '--concurrency', '1000'],
};

test.each(Object.entries(wrongUsages))(
  'OP-7: %s is wrong usage: 64 and one line, before anything is opened',
  async (_, args) => {
    expect(await runProgram(args)).toBe(64);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/^expunge: [^\n]+\n$/);
    expect(stderr).not.toContain(SOMEBODY);
  },
);
