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

/** The parser's message on one line, without the value of an option, which may be an identifier of a person. */
function usageLine(error: CommanderError): string {
  return error.message
    .replace(/^error: /, '')
    .replace(/(unknown option '--?[^=']*)=[^\n]*'/, "$1'")
    .replaceAll('\n', ' ');
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
