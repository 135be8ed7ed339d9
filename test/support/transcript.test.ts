import { expect, test } from 'vitest';
import { fillIn, patternOf, readTranscript } from './transcript.js';

const page = `
\`\`\`sh
$ expunge not run
\`\`\`
\`\`\`console
$ expunge hold <id> --reason "two words"
request  <id>  <time>
…
done …
^C
[exit 130]
$ expunge list
\`\`\`
`;

test('a page is read into commands with their output, exit code and interruption', () => {
  const [hold, list, ...others] = readTranscript(page);
  expect(others).toEqual([]);
  expect(hold).toEqual({
    line: 6,
    words: ['hold', '<id>', '--reason', 'two words'],
    output: ['request  <id>  <time>', '…', 'done …'],
    isInterrupted: true,
    exitCode: 130,
  });
  expect(list).toMatchObject({ words: ['list'], output: [], exitCode: 0 });
});

test('output has to be as the page says, in every line', () => {
  const [hold, list] = readTranscript(page);
  if (hold === undefined || list === undefined) throw new Error('The page has two commands.');
  const known = new Map([['id', 'a.c']]);
  expect(fillIn(hold, known)).toEqual(['hold', 'a.c', '--reason', 'two words']);
  expect(() => fillIn(hold, new Map())).toThrow('Line 6');
  const pattern = patternOf(hold, known);
  expect(pattern.exec('request    a.c  now\ndone at last\n')?.groups).toEqual({ time: 'now' });
  expect(pattern.exec('request    a.c  now\nmore\nand more\ndone at last\n')?.groups).toEqual({ time: 'now' });
  for (const other of [
    'request  abc  now\ndone it\n',
    'request  a.c  now\ndone it\nand more\n',
    'request  a.c  now\n',
    '',
  ]) {
    expect(other).not.toMatch(pattern);
  }
  expect('').toMatch(patternOf(list, known));
  expect('a line\n').not.toMatch(patternOf(list, known));
});
