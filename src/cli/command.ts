/** What every command of the program has in common. */
import { type Command, Option } from 'commander';
import { type Output, openOutput } from './output.js';
import type { Place } from './session.js';

/** What a command gets beside its own options. */
export interface Context {
  readonly output: Output;
  readonly place: Place;
}

/** Options that every command takes. */
interface CommonOptions {
  readonly json?: boolean;
  readonly config?: string;
}

/**
 * One command. A file in `commands/` exports it; the same one can be registered at the program and at a group.
 *
 * @typeParam O - its options, as the parser gives them.
 */
export interface CommandSpec<O extends object = object> {
  /** Name and arguments: `approve <id>`. */
  readonly usage: string;
  /** One line, for the list of commands. */
  readonly summary: string;
  readonly options: readonly Option[];
  /** Printed by `--help`; whole command lines, without the program's name. */
  readonly examples: readonly string[];
  /** @returns the exit code. */
  run(args: readonly string[], options: O, context: Context): Promise<number>;
}

/**
 * Adds a command to the program or to a group.
 *
 * @param training - whether the group needs a database and nothing else.
 * @param settle - is told the exit code.
 */
export function addCommand<O extends object>(
  parent: Command,
  spec: CommandSpec<O>,
  training: boolean,
  settle: (exitCode: number) => void,
): Command {
  const command = parent.command(spec.usage).description(spec.summary);
  for (const option of spec.options) command.addOption(option);
  command.option('--config <file>', 'the configuration; by default expunge.config.ts, where there is one');
  command.option('--json', 'print the result as JSON, also on a terminal');
  command.option('--no-json', 'print it for people, also where standard output is no terminal');
  const lines = spec.examples.map((example) => `  ${pathOf(parent)} ${example}`);
  command.addHelpText('after', `\n${lines.length === 1 ? 'Example' : 'Examples'}:\n${lines.join('\n')}`);
  return command.action(async () => {
    const options = command.opts<O & CommonOptions>();
    const place: Place = { training, ...(options.config === undefined ? {} : { config: options.config }) };
    settle(await spec.run(command.args, options, { output: openOutput(options.json), place }));
  });
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

/** An option that must be given. */
export function required(flags: string, description: string): Option {
  return new Option(flags, description).makeOptionMandatory();
}

export function optional(flags: string, description: string): Option {
  return new Option(flags, description);
}

/** An option that may be given several times. */
export function repeatable(flags: string, description: string): Option {
  return new Option(flags, description).argParser((value: string, before?: readonly string[]) => [
    ...(before ?? []),
    value,
  ]);
}
