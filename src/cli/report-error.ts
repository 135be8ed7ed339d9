/** What a person reads when a command ends badly: one line an error. */
import { CommanderError } from 'commander';
import { describeError } from '../observe/describe-error.js';
import { findExpungeError } from '../observe/expunge-error.js';
import { EXIT, exitCodeOf } from './exit-codes.js';
import { tell } from './output.js';

/** Tells what went wrong, and returns the exit code. */
export function reportError(error: unknown): number {
  if (error instanceof CommanderError) return reportUsage(error);
  for (const line of linesOf(error)) tell(`expunge: ${line}`);
  if (process.env['EXPUNGE_LOG'] === 'debug') tellWhere(error);
  return exitCodeOf(error);
}

/** Help and version end the parser as an error that says 0. */
function reportUsage(error: CommanderError): number {
  if (error.exitCode === 0) return EXIT.done;
  // Without a command the help has been printed, and says it better.
  if (error.code !== 'commander.help') tell(`expunge: ${usageLine(error)}`);
  return EXIT.usage;
}

/** The parser's message on one line, without a word that was typed where none of ours stands: it may be a person's. */
function usageLine({ code, message }: CommanderError): string {
  const [, meant] = /\(Did you mean ([^()\n]{1,80})\?\)$/.exec(message) ?? [];
  const advice = meant === undefined ? ': --help lists them.' : `; did you mean ${meant}?`;
  if (code === 'commander.unknownCommand') return `There is no such command${advice}`;
  if (code === 'commander.unknownOption') {
    const [, option] = /^error: unknown option '(--?[a-z][a-z-]{0,39})[=']/.exec(message) ?? [];
    return `There is no such option${option === undefined ? '' : ` as ${option}`}${advice}`;
  }
  return message.replace(/^error: /, '').replaceAll('\n', ' ');
}

function linesOf(error: unknown): readonly string[] {
  const own = findExpungeError(error);
  if (own === null) {
    const { message } = describeError(error);
    return [`Something went wrong that has no name yet (${message}): EXPUNGE_LOG=debug shows where.`];
  }
  const { problems } = own as { problems?: unknown };
  const lines = (own as { lines?: unknown }).lines;
  // A configuration can be wrong in several places; each gets its line.
  if (Array.isArray(problems) && problems.length > 1 && Array.isArray(lines)) {
    return lines.map((line) => `The configuration is wrong at ${String(line)}.`);
  }
  return [own.message];
}

/** The frames of the stack and not its first line, which repeats the message of whoever threw it. */
function tellWhere(error: unknown): void {
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  for (const line of stack.split('\n').filter((it) => /^\s+at /.test(it))) tell(line);
}
