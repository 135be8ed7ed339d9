/** The root, opened for one call, with the directories that the templates name in it. */
import { Directory, within, type FileAccess } from './directory.js';
import { parentMissing, rootUnavailable } from './fault.js';
import { errnoOf } from './file-system.js';
import type { Template } from './template.js';

export interface TreeOptions {
  /** The target's name, for errors. */
  readonly target: string;
  readonly root: string;
  /** The file that the root has to hold, or null. */
  readonly marker: string | null;
  readonly templates: readonly Template[];
}

/** The directory in which a template's own names begin: the root, or a fixed directory below it. */
export type Parents = ReadonlyMap<Template, Directory>;

/**
 * Opens the root and every fixed directory, works in them, makes removals durable, and closes them. Nothing stays open
 * between calls: each count and each slice of an erase sees the volume that is mounted now.
 *
 * @throws TargetUnavailableError where the root or its marker is not there; TargetDeclarationError where a fixed
 *   directory is not there, or is a link.
 */
export async function inTree<T>(
  access: FileAccess,
  options: TreeOptions,
  work: (parents: Parents) => Promise<T>,
): Promise<T> {
  return within(await openRoot(access, options), async (root) => {
    await demandMarker(root, options);
    return withParents(root, options, options.templates, new Map(), work);
  });
}

async function openRoot(access: FileAccess, { target, root }: TreeOptions): Promise<Directory> {
  try {
    return await Directory.at(access, root);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOENT' || errno === 'ENOTDIR') throw rootUnavailable(target, root, errno);
    throw error;
  }
}

/** A volume that is not mounted leaves an empty directory behind, in which nothing is left of anybody. */
async function demandMarker(root: Directory, { target, root: path, marker }: TreeOptions): Promise<void> {
  if (marker === null || (await root.find(Buffer.from(marker))) === 'file') return;
  throw rootUnavailable(target, path, 'NO_MARKER');
}

/** Opens the parent of one template after the other, each inside the one before, and then works. */
async function withParents<T>(
  root: Directory,
  options: TreeOptions,
  [template, ...rest]: readonly Template[],
  parents: ReadonlyMap<Template, Directory>,
  work: (parents: Parents) => Promise<T>,
): Promise<T> {
  if (template === undefined) return work(parents);
  return descend(root, template, 0, options.target, (parent) =>
    withParents(root, options, rest, new Map([...parents, [template, parent]]), work),
  );
}

async function descend<T>(
  directory: Directory,
  template: Template,
  index: number,
  target: string,
  work: (parent: Directory) => Promise<T>,
): Promise<T> {
  if (index === template.fixed) return work(directory);
  const name = Buffer.from(template.segments[index]?.before ?? '');
  const kind = await directory.find(name);
  const child = kind === 'directory' ? await directory.open(name) : null;
  if (child === null) {
    const path = template.segments.slice(0, index + 1).map(({ before }) => before);
    const found = kind === null ? 'there is none' : kind === 'link' ? 'it is a symbolic link' : 'it is no directory';
    throw parentMissing(target, template.text, path.join('/'), found);
  }
  return within(child, () => descend(child, template, index + 1, target, work));
}
