/** Where a command's words go: the result to standard output, everything else to standard error. */
import { styleText } from 'node:util';

type Format = Parameters<typeof styleText>[0];

/** Colours text where the terminal has colours, and leaves it alone elsewhere. */
export type Style = (format: Format, text: string) => string;

export interface Output {
  /** Whether the result is printed as JSON. */
  readonly asJson: boolean;
  /** Whether somebody watches standard error. */
  readonly isWatched: boolean;
  /**
   * Prints the result: as JSON, or as text for a person.
   * @param value - anything that `JSON.stringify` prints.
   */
  result(value: unknown, forPeople: (style: Style) => string): void;
  /** Prints a result that is text already, the same for everybody. */
  text(text: string): void;
  /** One line for whoever watches. */
  tell(line: string): void;
}

/**
 * @param json - what was asked for with `--json` or `--no-json`; undefined where neither was: JSON, unless standard output is
 *   a terminal.
 */
export function openOutput(json: boolean | undefined): Output {
  const asJson = json ?? !process.stdout.isTTY;
  const style = styleFor(process.stdout);
  return {
    asJson,
    isWatched: process.stderr.isTTY,
    result(value, forPeople) {
      print(asJson ? JSON.stringify(value, null, 2) : forPeople(style));
    },
    text: print,
    tell,
  };
}

function print(text: string): void {
  process.stdout.write(text.endsWith('\n') || text === '' ? text : `${text}\n`);
}

/** One line on standard error. */
export function tell(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** `hasColors` knows NO_COLOR, FORCE_COLOR and dumb terminals. */
export function styleFor(stream: NodeJS.WriteStream): Style {
  return stream.isTTY && stream.hasColors() ? (format, text) => styleText(format, text) : (_format, text) => text;
}

/** A reader that has gone away (`expunge list | head -1`) is no fault of the work. */
export function ignoreBrokenPipes(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
    });
  }
}
