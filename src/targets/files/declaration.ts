/** `files(...)`: a tree of generated files, as it stands in the configuration. */
import { isAbsolute, normalize } from 'node:path';
import type { JsonObject } from '../../storage/json.js';
import { TargetDeclarationError } from '../target-error.js';
import type { LocatorSource, TargetDeclaration } from '../target.js';
import type { Encoding } from './file-name.js';
import { FilesTarget, type FilesTargetOptions } from './target.js';
import { parseTemplate, type Template } from './template.js';

/** Raised whenever the same plan would be carried out differently. */
const HANDLER_VERSION = 1;

/** The names in `{}` of a path, for the compiler. */
export type NamesIn<Path extends string> = string extends Path
  ? string
  : Path extends `${string}{${infer Name}}${infer Rest}`
    ? Name | NamesIn<Rest>
    : never;

/**
 * @typeParam P - the paths.
 * @typeParam L - the names of the locators.
 */
export interface FilesOptions<P extends string = string, L extends string = string> {
  /** The absolute path of the tree. It may lead through links; nothing below it may. */
  readonly root: string;
  /**
   * Where a subject's files lie below the root. `{name}` stands for the value of an identifier or a locator, within one
   * name of the path. A path that ends with `/` is a directory with everything below; any other is exactly one file.
   * The directories before the first `{name}` have to exist. The path is also the name of the place.
   */
  readonly paths: readonly P[];
  /** Values in the paths that another target knows: they are resolved and sealed before anything there is deleted. */
  readonly locators?: Readonly<Record<L, LocatorSource>>;
  /**
   * A file directly in the root that has to be there, for example `.expunge-root`. Without it, a volume that is not
   * mounted looks like a tree in which nothing is left, where its mount point has the declared directories.
   */
  readonly marker?: string;
  /** How a value becomes a file name: as it is (`verbatim`, the default), or as `encodeURIComponent` writes it (`uri`). */
  readonly encode?: Encoding;
}

/**
 * Declares a tree of files that are generated per subject: exports, invoices, avatars.
 *
 * What is deleted: names, and never what they point to. A symbolic link in a place is removed, its target untouched; of
 * a file with several hard links, the name in the place. Directories are removed once they are empty, from the first
 * one that belongs to the subject alone; the root and the directories that paths name without a value stay. Nothing
 * outside the root is touched, also when somebody swaps a directory for a link meanwhile (`directory.ts` says exactly
 * when that holds). Removals are on disk when a slice is reported.
 *
 * What is counted: names that are not directories, and empty directories, since their name may tell of the person.
 *
 * What a value means: one name, byte by byte, in every case. `u/1`, `..` or a value of more than 255 bytes is no file
 * name, so nothing is stored under it and nothing is matched; use `encode: 'uri'` where the application encodes its
 * values. An empty or missing value is refused.
 *
 * @throws TargetDeclarationError that names the field, what was found and what is expected.
 *
 * @example
 * files({
 *   root: '/srv/artifacts',
 *   paths: ['customers/{customerId}/', 'invoices/{invoice}.pdf'],
 *   locators: { invoice: { target: 'operational', place: 'invoice', column: 'invoice_id' } },
 *   marker: '.expunge-root',
 * })
 */
export function files<const P extends string, const L extends string = never>(
  options: FilesOptions<P, L>,
): TargetDeclaration<Exclude<NamesIn<P>, L>> {
  const { root, paths, marker = null, encode = 'verbatim' } = options;
  const locators: Readonly<Record<string, LocatorSource>> = options.locators ?? {};
  const templates = paths.map((path, index) => parseTemplate(path, `files.paths[${index}]`, Object.keys(locators)));
  refuseRoot(root);
  refuseMarker(marker);
  if (!['verbatim', 'uri'].includes(encode)) refuse('files.encode', encode, "it is 'verbatim' or 'uri'");
  refuseOverlap(templates);
  refuseUnusedLocators(Object.keys(locators), templates);
  const used = [...new Set(templates.flatMap(({ names }) => names))];
  const opened: FilesTargetOptions = { root: normalize(root), templates, marker, encode };
  return {
    kind: 'files',
    handlerVersion: HANDLER_VERSION,
    plan: planOf(opened, locators),
    identifiers: used.filter((name) => !Object.hasOwn(locators, name)) as Exclude<NamesIn<P>, L>[],
    locators,
    revokes: false,
    open: (name) => new FilesTarget(name, opened),
  };
}

function planOf(options: FilesTargetOptions, locators: Readonly<Record<string, LocatorSource>>): JsonObject {
  const { root, templates, marker, encode } = options;
  const sources = Object.entries(locators).map(([name, { target, place, column }]) => [
    name,
    { target, place, column },
  ]);
  return {
    root,
    paths: templates.map(({ text }) => ({ path: text, action: 'delete' })),
    locators: Object.fromEntries(sources) as JsonObject,
    marker,
    encode,
  };
}

function refuse(field: string, found: unknown, expected: string): never {
  throw new TargetDeclarationError(`${field} is ${JSON.stringify(found) ?? 'missing'}: ${expected}`, {
    target: 'files',
  });
}

function refuseRoot(root: string): void {
  if (typeof root !== 'string' || !isAbsolute(root)) refuse('files.root', root, 'it is an absolute path');
  if (root.includes('\0') || normalize(`${root}/`) === '/') refuse('files.root', root, 'it is a directory of its own');
}

function refuseMarker(marker: string | null): void {
  if (marker === null) return;
  if (typeof marker !== 'string' || marker === '' || marker === '.' || marker === '..' || /[/\0]/.test(marker)) {
    refuse('files.marker', marker, 'it is the name of a file directly in the root');
  }
}

/** A file that lies in two places would be counted and approved twice. */
function refuseOverlap(templates: readonly Template[]): void {
  if (templates.length === 0) refuse('files.paths', [], 'it has one path at least');
  for (const [index, { text }] of templates.entries()) {
    const other = templates.find(
      (template, at) =>
        at !== index && (template.text === text || (template.isDirectory && text.startsWith(template.text))),
    );
    if (other !== undefined) refuse(`files.paths[${index}]`, text, `it lies in ${JSON.stringify(other.text)} already`);
  }
}

function refuseUnusedLocators(locators: readonly string[], templates: readonly Template[]): void {
  for (const name of locators) {
    if (!templates.some(({ names }) => names.includes(name))) {
      refuse(`files.locators.${name}`, 'unused', `a path has {${name}} in it, or it is left out`);
    }
  }
}
