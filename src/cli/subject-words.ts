/**
 * Whom a command is about, from the command line or from standard input, which stays out of shell history and process
 * lists. No message repeats anything of it.
 */
import { type Option } from 'commander';
import { optional, repeatable } from './command.js';
import { readStandardInput } from './files.js';
import { UsageError } from './usage-error.js';

export interface SubjectOptions {
  readonly subject?: readonly string[];
  readonly subjectStdin?: true;
}

export function subjectOptions(): readonly Option[] {
  return [
    repeatable('--subject <name=value>', 'an identifier, such as customerId=42; may be repeated'),
    optional(
      '--subject-stdin',
      'read the identifiers from standard input: a JSON object, or NAME=VALUE lines',
    ).conflicts('subject'),
  ];
}

/** The identifiers by name. @throws UsageError */
export async function readSubject(options: SubjectOptions): Promise<Readonly<Record<string, string>>> {
  if (options.subjectStdin === true) return parseSubjectText(new TextDecoder().decode(await readStandardInput()));
  if (options.subject === undefined)
    throw new UsageError('Say whom it is about, with --subject NAME=VALUE or --subject-stdin.');
  return fromPairs(options.subject, '--subject');
}

/** @throws UsageError */
export function parseSubjectText(text: string): Readonly<Record<string, string>> {
  if (text.trimStart().startsWith('{')) return fromJson(text);
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '');
  return fromPairs(lines, 'every line of --subject-stdin');
}

function fromJson(text: string): Readonly<Record<string, string>> {
  const wrong = new UsageError('--subject-stdin takes a JSON object whose values are text.');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The parser's message quotes what it read.
    throw wrong;
  }
  const entries = Object.entries(value as object);
  if (entries.length === 0 || entries.some((entry) => typeof entry[1] !== 'string')) throw wrong;
  return Object.fromEntries(entries as [string, string][]);
}

function fromPairs(words: readonly string[], what: string): Readonly<Record<string, string>> {
  const subject = new Map<string, string>();
  for (const word of words) {
    const [, name, value] = /^\s*([^=\s]+)=(.*)$/s.exec(word) ?? [];
    if (name === undefined || value === undefined || value === '') {
      throw new UsageError(`${what} has to be NAME=VALUE, such as customerId=42.`);
    }
    if (subject.has(name)) throw new UsageError('An identifier was given twice: one request is about one subject.');
    subject.set(name, value);
  }
  if (subject.size === 0)
    throw new UsageError('--subject-stdin read nothing: it takes a JSON object, or NAME=VALUE lines.');
  return Object.fromEntries(subject);
}
