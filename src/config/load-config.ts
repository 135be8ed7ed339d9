/** Finds the configuration of a command: a file, or the environment alone. */
import { existsSync, statSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { ConfigError, ConfigLoadError } from './config-error.js';
import { importConfig } from './import-config.js';
import { resolveConfig, resolveWithoutFile } from './resolve-config.js';
import type { ResolvedConfig } from './resolved-config.js';

/** The file names that are looked for in the working directory. */
export const configFileNames = [
  'expunge.config.ts',
  'expunge.config.mts',
  'expunge.config.js',
  'expunge.config.mjs',
] as const;

type Environment = Readonly<Record<string, string | undefined>>;

export interface LoadOptions {
  /** Where to look; the process's working directory by default. */
  readonly cwd?: string | undefined;
  /** This file and no other (`--config`), relative to `cwd`. */
  readonly file?: string | undefined;
  /** The environment; the process's by default. */
  readonly env?: Environment | undefined;
}

export interface LoadedConfig {
  readonly config: ResolvedConfig;
  /** The file that it came from, as an absolute path; null where there is none. */
  readonly file: string | null;
}

/**
 * Loads the configuration file that was asked for or that is in the working directory. Without one the environment is all:
 * {@link configFromEnvironment}.
 *
 * @throws ConfigLoadError where the file does not exist or does not run, where there are several, or where
 *   `EXPUNGE_DATABASE_URL` is set and the file does not say what to do with it.
 * @throws ConfigError where the file runs and what it says is wrong.
 */
export async function loadConfig(options: LoadOptions = {}): Promise<LoadedConfig> {
  const env = options.env ?? process.env;
  const file = findFile(resolve(options.cwd ?? '.'), options.file);
  if (file === null) return { config: configFromEnvironment(env), file };
  const config = resolveConfig(await importConfig(file));
  assertOneDatabase(config, file, env);
  return { config, file };
}

/**
 * The configuration of somebody who has no file: the database that `EXPUNGE_DATABASE_URL` names, else an embedded one in
 * `./.expunge`. Enough for `user-deletion`, which needs no subject, no targets and no keys (contract OP-11).
 *
 * @throws ConfigError where `EXPUNGE_DATABASE_URL` is set and is no PostgreSQL URL. An empty one is refused too: to go on in
 *   another, embedded database is not what somebody meant who set it.
 */
export function configFromEnvironment(env: Environment = process.env): ResolvedConfig {
  try {
    return resolveWithoutFile(env['EXPUNGE_DATABASE_URL']);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const [{ found, expected }] = error.problems;
    throw new ConfigError([{ path: 'EXPUNGE_DATABASE_URL', found, expected }]);
  }
}

function findFile(directory: string, asked: string | undefined): string | null {
  if (asked !== undefined) return askedFile(resolve(directory, asked));
  const [first, second] = configFileNames.map((name) => resolve(directory, name)).filter((file) => existsSync(file));
  if (first !== undefined && second !== undefined) {
    throw new ConfigLoadError(
      `There are both ${basename(first)} and ${basename(second)}: remove one, or choose with --config.`,
    );
  }
  return first ?? null;
}

function askedFile(file: string): string {
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === true) return file;
  throw new ConfigLoadError(`The configuration file ${file} does not exist: correct the path after --config.`);
}

/** An application and a command that read the same file must not end up in different databases because of the environment. */
function assertOneDatabase({ database }: ResolvedConfig, file: string, env: Environment): void {
  if (database.kind === 'postgres' || database.declared || !env['EXPUNGE_DATABASE_URL']) return;
  throw new ConfigLoadError(
    `EXPUNGE_DATABASE_URL is set, and ${basename(file)} names no database: add \`database: process.env.EXPUNGE_DATABASE_URL\` to it, or \`embedded: {}\`.`,
  );
}
