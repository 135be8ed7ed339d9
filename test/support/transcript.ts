/**
 * Pages whose commands are run. In a block fenced as `console`:
 *
 * - `$ expunge …` is a command; the lines below it are its whole output, standard error included.
 * - `<name>` stands for one word. The first time it is read from the output, from then on it has to be the same, and it is
 *   put into commands.
 * - `…` stands for the rest of a line, or, on a line of its own, for any number of lines.
 * - `^C` interrupts the command, once its handler is at work.
 * - `[exit 2]` is the exit code; 0 where there is none.
 */

export interface Step {
  /** The line of the page, for messages. */
  readonly line: number;
  /** The words after `expunge`, with placeholders. */
  readonly words: readonly string[];
  readonly output: readonly string[];
  readonly isInterrupted: boolean;
  readonly exitCode: number;
}

/** The commands of a page, in order. @throws Error where a block does not begin with one. */
export function readTranscript(page: string): readonly Step[] {
  const steps: { line: number; words: string[]; output: string[]; isInterrupted: boolean; exitCode: number }[] = [];
  let isInside = false;
  page.split('\n').forEach((text, index) => {
    if (text.startsWith('```')) {
      isInside = text === '```console';
      return;
    }
    if (!isInside) return;
    if (text.startsWith('$ expunge ')) {
      const words = splitWords(text.slice('$ expunge '.length));
      steps.push({ line: index + 1, words, output: [], isInterrupted: false, exitCode: 0 });
      return;
    }
    const step = steps.at(-1);
    if (step === undefined) throw new Error(`Line ${index + 1} is output of no command.`);
    const exit = /^\[exit (\d+)\]$/.exec(text);
    if (exit !== null) step.exitCode = Number(exit[1]);
    else if (text === '^C') step.isInterrupted = true;
    else step.output.push(text);
  });
  return steps;
}

/** As a shell would split it: at spaces, with double quotes. */
function splitWords(text: string): string[] {
  return [...text.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}

/** The words of a command with what is known put in. @throws Error where a placeholder is not known yet. */
export function fillIn(step: Step, known: ReadonlyMap<string, string>): readonly string[] {
  return step.words.map((word) =>
    word.replace(PLACEHOLDER, (_, name: string) => {
      const value = known.get(name);
      if (value === undefined) throw new Error(`Line ${step.line} uses <${name}>, which no output has shown.`);
      return value;
    }),
  );
}

const PLACEHOLDER = /<([a-z][a-zA-Z0-9]*)>/g;

/** What the output has to look like. Its named groups are the placeholders that it shows for the first time. */
export function patternOf(step: Step, known: ReadonlyMap<string, string>): RegExp {
  const shown = new Set<string>();
  const lines = step.output.map((line) => (line === '…' ? '(?:.*\\n)*?' : `${patternOfLine(line, known, shown)}\\n`));
  return new RegExp(`^${lines.join('')}$`);
}

function patternOfLine(line: string, known: ReadonlyMap<string, string>, shown: Set<string>): string {
  // The parts between the placeholders stand at even positions, their names at odd ones.
  return line
    .trimEnd()
    .split(PLACEHOLDER)
    .map((part, position) => {
      if (position % 2 === 0) return escape(part);
      const value = known.get(part);
      if (value !== undefined) return escape(value);
      if (shown.has(part)) return `\\k<${part}>`;
      shown.add(part);
      return `(?<${part}>\\S+)`;
    })
    .join('');
}

function escape(text: string): string {
  return text
    .replace(/[.*+?^${}()|[\]\\/]/g, String.raw`\$&`)
    .replace(/ {2,}/g, ' +')
    .replaceAll('…', '.*?');
}
