/** Runs a configuration file, and says in one sentence what kept it from running. */
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createJiti } from 'jiti';
import { describeError } from '../observe/describe-error.js';
import { findExpungeError } from '../observe/expunge-error.js';
import { ConfigLoadError } from './config-error.js';

/**
 * Imports `file`, TypeScript or JavaScript, and answers with its default export.
 *
 * @throws ConfigLoadError where a package that it imports is not installed (with the command that installs it), where it
 *   fails to run, and where it exports nothing by default. An Expunge error from inside the file is thrown as it is.
 */
export async function importConfig(file: string): Promise<unknown> {
  const exported = await run(file);
  if (typeof exported === 'object' && exported !== null && 'default' in exported) return exported.default;
  throw new ConfigLoadError(
    `${basename(file)} has no default export: write \`export default defineConfig({ … })\` in it.`,
  );
}

async function run(file: string): Promise<unknown> {
  // Without caches: a file of the past must not be what is loaded, and its compiled text must not lie about.
  const jiti = createJiti(pathToFileURL(file).href, { fsCache: false, moduleCache: false });
  try {
    return await jiti.import(file);
  } catch (error) {
    throw findExpungeError(error) ?? loadError(file, error);
  }
}

function loadError(file: string, error: unknown): ConfigLoadError {
  const name = basename(file);
  const missing = missingModule(error);
  if (missing === null) {
    const what = `${describeError(error).message}${positionIn(file, error)}`;
    return new ConfigLoadError(`${name} could not be run: ${what}: correct it there.`, { cause: error });
  }
  const advice = missing.startsWith('.')
    ? `imports the file ${missing}, which does not exist: correct its path`
    : `needs the package ${packageOf(missing)}, which is not installed: run \`${installCommand(missing)}\``;
  return new ConfigLoadError(`${name} ${advice}.`, { cause: error });
}

/** What could not be found: Node names it in its message only. Anything that does not look like a module is not repeated. */
function missingModule(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error)) return null;
  if (error.code !== 'MODULE_NOT_FOUND' && error.code !== 'ERR_MODULE_NOT_FOUND') return null;
  const specifier = /^Cannot find (?:module|package) '([\w@./-]{1,200})'/.exec(error.message)?.[1];
  return specifier === undefined || specifier.startsWith('/') ? null : specifier;
}

/** The name of the package that a specifier such as `@aws-sdk/client-s3/dist/x.js` is in. */
function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

/**
 * The command that installs the package of `specifier`: of an optional peer, the versions that Expunge works with.
 *
 * @param peers - ranges by package name; those of this package by default.
 */
export function installCommand(specifier: string, peers: Readonly<Record<string, string>> = ownPeers()): string {
  const name = packageOf(specifier);
  const range = Object.hasOwn(peers, name) ? peers[name] : undefined;
  return range === undefined ? `npm i ${name}` : `npm i '${name}@${range}'`;
}

function ownPeers(): Readonly<Record<string, string>> {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(manifest) as { peerDependencies?: Record<string, string> }).peerDependencies ?? {};
}

/** ` at line 3, column 8`, where the stack says so. Nothing else of a stack is safe: it opens with the message. */
function positionIn(file: string, error: unknown): string {
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  const after = [pathToFileURL(file).href, file]
    .map((name) => stack.split(`${name}:`)[1])
    .find((it) => it !== undefined);
  const [, line, column] = /^(\d{1,7})(?::(\d{1,7}))?/.exec(after ?? '') ?? [];
  if (line === undefined) return '';
  return ` at line ${line}${column === undefined ? '' : `, column ${column}`}`;
}
