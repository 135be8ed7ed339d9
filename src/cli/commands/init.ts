import { access, open } from 'node:fs/promises';
import { join } from 'node:path';
import { type CommandSpec, optional } from '../command.js';
import { configTemplate } from '../config-template.js';
import { EXIT } from '../exit-codes.js';
import { FileError } from '../files.js';
import { pairs } from '../table.js';

interface Options {
  readonly keys: string;
}

/** Writes what a new installation needs. What exists is never overwritten: a lost key takes all that it sealed with it. */
export const init: CommandSpec<Options> = {
  usage: 'init',
  summary: 'write expunge.config.ts and the key files; what exists is left alone',
  options: [optional('--keys <directory>', 'where the key files go').default('expunge-keys')],
  examples: ['init', 'init --keys /etc/expunge'],
  async run(_args, { keys }, { output }) {
    const { configFileNames } = await import('../../config/load-config.js');
    const { KEY_FILE_NAMES } = await import('../../keys/write-key-files.js');
    const written: string[] = [];
    const kept: string[] = [];

    const keyFiles = Object.values(KEY_FILE_NAMES).map((name) => join(keys, name));
    const existingKeys = await existing(keyFiles);
    if (existingKeys.length === keyFiles.length) kept.push(...keyFiles);
    else written.push(...(await writeKeys(keys)));

    const [config] = await existing(configFileNames);
    if (config !== undefined) kept.push(config);
    else {
      await create('expunge.config.ts', configTemplate(join(keys, KEY_FILE_NAMES.worker)));
      written.push('expunge.config.ts');
    }
    output.result({ written, kept }, () =>
      pairs([...written.map((file) => ['written', file] as const), ...kept.map((file) => ['kept', file] as const)]),
    );
    for (const line of nextSteps(keys)) output.tell(line);
    return EXIT.done;
  },
};

async function existing(paths: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(
    paths.map((path) =>
      access(path).then(
        () => [path],
        () => [],
      ),
    ),
  );
  return found.flat();
}

/** Where some of the files are there and others are not, the existing one is named and refused. */
async function writeKeys(directory: string): Promise<readonly string[]> {
  const { generateKeyFiles } = await import('../../keys/generate-key-files.js');
  const { writeKeyFiles } = await import('../../keys/write-key-files.js');
  const paths = Object.values(await writeKeyFiles(directory, generateKeyFiles()));
  const ignore = join(directory, '.gitignore');
  if ((await existing([ignore])).length > 0) return paths;
  await create(ignore, '# Keys are not kept with the code.\n*\n');
  return [...paths, ignore];
}

async function create(path: string, content: string): Promise<void> {
  try {
    const file = await open(path, 'wx');
    try {
      await file.writeFile(content, 'utf8');
    } finally {
      await file.close();
    }
  } catch (error) {
    throw new FileError('written', path, error);
  }
}

function nextSteps(keys: string): readonly string[] {
  return [
    'Next:',
    `  1. Keep a copy of ${keys} away from the database and its backups. A lost key cannot be made again.`,
    '  2. Set EXPUNGE_DATABASE_URL to a PostgreSQL database of its own, and run: expunge migrate',
    '  3. Say in expunge.config.ts where the data of your people lives.',
    '  4. Look before anything is deleted: expunge submit --dry-run --subject customerId=42 --requested-by you',
  ];
}
