/**
 * A file of subjects, one a line: CSV whose header names the identifiers, or one JSON object a line. Read as a stream, as
 * often as it is asked for. What is wrong with a line is said without a word of it.
 */
import { createReadStream } from 'node:fs';
import { extname } from 'node:path';
import { Readable } from 'node:stream';
import { CsvError, parse, type Parser } from 'csv-parse';
import type { BatchLine, BatchSource } from '../client/batch-source.js';
import { oneOf } from './arguments.js';
import { FileError } from './files.js';
import { UsageError } from './usage-error.js';

/** The longest line, in characters: a quote that is never closed must not fill the memory. */
const LONGEST_LINE = 65_536;

const formats = { '.csv': 'csv', '.ndjson': 'ndjson', '.jsonl': 'ndjson' } as const;

/**
 * @param format - `csv` or `ndjson`; by default what the file's name ends in.
 * @throws UsageError
 */
export function subjectFile(path: string, format: string | undefined): BatchSource {
  if (path === '-')
    throw new UsageError('--from takes a file, which is read twice: write standard input to one first.');
  const known = Object.entries(formats).find(([ending]) => ending === extname(path).toLowerCase())?.[1];
  const chosen = format === undefined ? known : oneOf('--format', format, ['csv', 'ndjson']);
  if (chosen === undefined) throw new UsageError('Say what --from is, with --format csv or --format ndjson.');
  return () => (chosen === 'csv' ? csvLines(path) : jsonLines(path));
}

/** Bytes that are no UTF-8 end the reading: replaced by another character they would name somebody else. */
async function* text(path: string): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  try {
    for await (const chunk of createReadStream(path)) yield decoder.decode(chunk as Uint8Array, { stream: true });
    yield decoder.decode();
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ERR_ENCODING_INVALID_ENCODED_DATA'
      ? new NotUtf8Error()
      : new FileError('read', path, error);
  }
}

class NotUtf8Error extends Error {}

async function* jsonLines(path: string): AsyncGenerator<BatchLine> {
  let position = 0;
  let rest = '';
  try {
    for await (const chunk of text(path)) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        position += 1;
        if (line.trim() !== '') yield jsonLine(position, line);
      }
      if (rest.length <= LONGEST_LINE) continue;
      yield { position: position + 1, fault: TOO_LONG };
      return;
    }
  } catch (error) {
    if (!(error instanceof NotUtf8Error)) throw error;
    yield { position: position + 1, fault: NOT_UTF8 };
    return;
  }
  if (rest.trim() !== '') yield jsonLine(position + 1, rest);
}

function jsonLine(position: number, line: string): BatchLine {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return { position, fault: NOT_JSON };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { position, fault: NOT_JSON };
  if (Object.values(value).some((part) => typeof part !== 'string')) return { position, fault: NOT_TEXT };
  return { position, identifiers: value as Record<string, string> };
}

async function* csvLines(path: string): AsyncGenerator<BatchLine> {
  const parser = parse({ info: true, relax_column_count: true, skip_empty_lines: true, max_record_size: LONGEST_LINE });
  const source = Readable.from(text(path));
  source.on('error', (error) => parser.destroy(error));
  source.pipe(parser);
  let names: readonly string[] | null = null;
  let last = 0;
  try {
    for await (const { record, info } of parser as Parser & AsyncIterable<CsvRecord>) {
      // The line that a record ends on: one with line breaks in its quotes has several.
      last = info.lines;
      if (names !== null) yield csvLine(last, names, record);
      else if (new Set(record).size === record.length) names = record;
      else {
        yield { position: last, fault: 'The header names a column twice.' };
        return;
      }
    }
  } catch (error) {
    if (error instanceof NotUtf8Error) yield { position: last + 1, fault: NOT_UTF8 };
    else if (error instanceof CsvError)
      yield { position: Math.max(Number(error['lines']) || 0, last + 1), fault: csvFault(error) };
    else throw error;
  } finally {
    source.destroy();
  }
}

interface CsvRecord {
  readonly record: readonly string[];
  readonly info: { readonly lines: number };
}

function csvLine(position: number, names: readonly string[], record: readonly string[]): BatchLine {
  if (record.length !== names.length) return { position, fault: 'It has more or fewer columns than the header.' };
  return { position, identifiers: Object.fromEntries(names.map((name, at) => [name, record[at] ?? ''])) };
}

/** By the parser's code: its message quotes what it read. */
function csvFault({ code }: CsvError): string {
  return code === 'CSV_MAX_RECORD_SIZE' ? TOO_LONG : 'Its quotes do not fit (what follows was not read).';
}

const TOO_LONG = `It is longer than ${LONGEST_LINE} characters (what follows was not read).`;
const NOT_UTF8 = 'From here on it is no UTF-8 (what follows was not read).';
const NOT_JSON = 'It is no JSON object.';
const NOT_TEXT = 'It has a value that is no text.';
