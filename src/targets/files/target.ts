/** The files target: one opened tree of generated files. */
import type { JsonValue } from '../../storage/json.js';
import { TargetDeclarationError, TargetError } from '../target-error.js';
import type {
  Answers,
  EraseOptions,
  EraseProgress,
  EraseSubject,
  Place,
  PlaceCount,
  SubjectBatch,
  SubjectRef,
  Target,
  TargetSubject,
} from '../target.js';
import { canAnchor, type FileAccess } from './directory.js';
import { asTargetError } from './fault.js';
import type { Encoding } from './file-name.js';
import { canRefuseLinks, nodeFileSystem, type FileSystem } from './file-system.js';
import { pathsOf, type SubjectPath, type Template } from './template.js';
import { inTree, type Parents } from './tree.js';
import { countAt, eraseAt, Slice } from './walk.js';

export interface FilesTargetOptions {
  readonly root: string;
  readonly templates: readonly Template[];
  readonly marker: string | null;
  readonly encode: Encoding;
  /** Where the operations go; the machine's by default. */
  readonly fs?: FileSystem;
  /** Whether names are resolved below open directories; by default wherever the machine can. */
  readonly anchored?: boolean;
}

/** Where an erase goes on: the template and the path in it, by number. Both hold no value. */
interface Position {
  readonly place: number;
  readonly path: number;
}

export class FilesTarget implements Target {
  readonly name: string;
  readonly #options: FilesTargetOptions;

  constructor(name: string, options: FilesTargetOptions) {
    this.name = name;
    this.#options = options;
  }

  async describe(signal: AbortSignal): Promise<readonly Place[]> {
    await this.#inTree(signal, async () => undefined);
    return this.#options.templates.map(({ text }) => ({ place: text, action: 'delete', basis: null }));
  }

  /** Walks the tree afresh, from its root: nothing is remembered of an erase, not even an open directory. */
  async count(batch: SubjectBatch, signal: AbortSignal): Promise<Answers<readonly PlaceCount[]>> {
    return this.#inTree(signal, (parents) =>
      this.#each(batch, signal, async (subject) => {
        const counts: PlaceCount[] = [];
        for (const { template, paths } of this.#placesOf(subject)) {
          counts.push({
            ...NOTHING_KEPT,
            place: template.text,
            matched: await this.#countIn(parents, template, paths),
          });
        }
        return counts;
      }),
    );
  }

  async #countIn(parents: Parents, template: Template, paths: readonly SubjectPath[]): Promise<number> {
    return this.#at(template, async () => {
      let matched = 0;
      for (const path of paths) matched += await countAt(parentOf(parents, template), path);
      return matched;
    });
  }

  /** The slice is on disk when this answers: the directories that it changed were synchronised. */
  async erase(batch: SubjectBatch<EraseSubject>, options: EraseOptions): Promise<Answers<EraseProgress>> {
    const slice = new Slice(options.limit);
    return this.#inTree(options.signal, (parents) =>
      this.#each(batch, options.signal, (subject) => this.#eraseSubject(parents, subject, slice)),
    );
  }

  async #eraseSubject(parents: Parents, subject: EraseSubject, slice: Slice): Promise<EraseProgress> {
    // All paths are made before anything is touched: a subject without a value is refused as a whole.
    const places = this.#placesOf(subject);
    const reported: { place: string; rows: number }[] = [];
    const start = positionOf(subject.cursor);
    for (const [place, { template, paths }] of places.entries()) {
      if (place < start.place) continue;
      const before = slice.removed;
      const first = place === start.place ? start.path : 0;
      const stopped = await this.#at(template, () => eraseFrom(parentOf(parents, template), paths, first, slice));
      reported.push({ place: template.text, rows: slice.removed - before });
      if (stopped !== null) return { cursor: { place, path: stopped }, done: false, reported };
    }
    // From a cursor of null everything is looked at again, so that nothing hides what came back meanwhile.
    return { cursor: null, done: true, reported };
  }

  async close(): Promise<void> {
    // Nothing is open between calls.
  }

  #placesOf(
    subject: TargetSubject,
  ): readonly { readonly template: Template; readonly paths: readonly SubjectPath[] }[] {
    const { templates, encode, marker } = this.#options;
    return templates.map((template) => ({
      template,
      paths: pathsOf(template, subject, encode, this.name).filter((path) => !isMarker(template, path, marker)),
    }));
  }

  /** Opens the tree for one call. */
  async #inTree<T>(signal: AbortSignal, work: (parents: Parents) => Promise<T>): Promise<T> {
    if (!canRefuseLinks) {
      throw new TargetDeclarationError(
        `${this.name}: files needs a POSIX system, since no other can be told not to follow links`,
        { target: this.name, cause: 'NOT_POSIX' },
      );
    }
    const { fs = nodeFileSystem, anchored = canAnchor(), root, marker, templates } = this.#options;
    const access: FileAccess = { fs, signal, anchored };
    try {
      signal.throwIfAborted();
      return await inTree(access, { target: this.name, root, marker, templates }, work);
    } catch (error) {
      throw asTargetError(error, this.name);
    }
  }

  async #at<T>(template: Template, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw asTargetError(error, this.name, template.text);
    }
  }

  /** A subject that fails is answered with its error, and the others go on; an abort ends the call. */
  async #each<S extends TargetSubject, T>(
    batch: SubjectBatch<S>,
    signal: AbortSignal,
    work: (subject: S) => Promise<T>,
  ): Promise<Answers<T>> {
    const answers = new Map<SubjectRef, T | TargetError>();
    for (const [ref, subject] of batch) {
      signal.throwIfAborted();
      try {
        answers.set(ref, await work(subject));
      } catch (error) {
        if (!(error instanceof TargetError)) throw error;
        answers.set(ref, error);
      }
    }
    return answers;
  }
}

const NOTHING_KEPT = { retained: 0, retainedUntil: null, superseded: 0, parentless: null, unverifiable: null } as const;

/** Erases one path after the other. @returns the number of the path where the limit came, or null at the end. */
async function eraseFrom(
  parent: Parameters<typeof eraseAt>[0],
  paths: readonly SubjectPath[],
  first: number,
  slice: Slice,
): Promise<number | null> {
  for (const [index, path] of paths.entries()) {
    if (index < first) continue;
    if (slice.left <= 0) return index;
    const before = slice.removed;
    if (!(await eraseAt(parent, path, slice))) return index;
    // Looking where nothing is takes time too, and there may be many such paths: it counts as one removal.
    if (slice.removed === before) slice.left -= 1;
  }
  return null;
}

function parentOf(parents: Parents, template: Template): Parameters<typeof eraseAt>[0] {
  const parent = parents.get(template);
  if (parent === undefined) throw new TypeError(`the directory of ${template.text} is not open`);
  return parent;
}

/** The marker is nobody's file, whatever a value says. */
function isMarker(template: Template, { names }: SubjectPath, marker: string | null): boolean {
  return marker !== null && template.fixed === 0 && names[0]?.equals(Buffer.from(marker)) === true;
}

/** A cursor that was saved by another version, or none, starts at the beginning: that is always right. */
function positionOf(cursor: JsonValue): Position {
  const { place, path } = (cursor ?? {}) as Partial<Record<keyof Position, unknown>>;
  const isPosition = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
  return isPosition(place) && isPosition(path) ? { place, path } : { place: 0, path: 0 };
}
