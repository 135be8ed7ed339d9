/**
 * Builds `dist` from `src`: removes what no source stands for any more, compiles what changed, copies the files that are
 * no TypeScript, and makes the command line runnable, in a clone also as `npx expunge`. Does next to nothing when nothing
 * changed, because every test run starts with it.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const src = join(root, 'src');
const dist = join(root, 'dist');
/** What the compiler remembers of its last run (`tsBuildInfoFile` of tsconfig.build.json). */
const memory = join(dist, '.tsbuildinfo');
const commandLine = join(dist, 'cli', 'main.js');

const sources = filesBelow(src).filter((file) => !file.endsWith('.test.ts'));
const assets = sources.filter((file) => !file.endsWith('.ts'));
const compiled = sources
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'))
  .flatMap((file) => ['.js', '.js.map', '.d.ts'].map((ending) => file.replace(/\.ts$/, ending)));

removeStale();
copyAssets();
const status = compile();
makeRunnable();
process.exitCode = status;

function removeStale() {
  const expected = new Set([...assets, ...compiled, relative(dist, memory)]);
  for (const file of filesBelow(dist)) {
    if (!expected.has(file)) rmSync(join(dist, file));
  }
  // The compiler writes only what changed since it last looked; it does not see that somebody removed its output.
  if (compiled.some((file) => !existsSync(join(dist, file)))) rmSync(memory, { force: true });
}

function copyAssets() {
  for (const file of assets) {
    const content = readFileSync(join(src, file));
    const copy = join(dist, file);
    if (existsSync(copy) && readFileSync(copy).equals(content)) continue;
    mkdirSync(dirname(copy), { recursive: true });
    writeFileSync(copy, content);
  }
}

/** @returns {number} the compiler's exit code. */
function compile() {
  const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  const arguments_ = [tsc, '--project', join(root, 'tsconfig.build.json')];
  const { status, error } = spawnSync(process.execPath, arguments_, { stdio: 'inherit' });
  if (error) throw error;
  return status ?? 1;
}

/** npm links a package's commands for those who install it, but not in the package's own clone; npx looks there first. */
function makeRunnable() {
  if (!existsSync(commandLine)) return;
  chmodSync(commandLine, 0o755);
  const commands = join(root, 'node_modules', '.bin');
  const link = join(commands, 'expunge');
  if (process.platform === 'win32' || existsSync(link) || !existsSync(commands)) return;
  // A link that leads nowhere does not "exist", and stands in the way of a new one.
  rmSync(link, { force: true });
  symlinkSync(relative(commands, commandLine), link);
}

/**
 * @param {string} directory
 * @returns {string[]} the files below it, relative to it; none where it does not exist.
 */
function filesBelow(directory) {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)));
}
