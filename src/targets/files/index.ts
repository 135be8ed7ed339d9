/** `expunge/files`: a tree of generated files. */
export { files, type FilesOptions, type NamesIn } from './declaration.js';
export type { Encoding } from './file-name.js';
