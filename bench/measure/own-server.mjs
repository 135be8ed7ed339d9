/**
 * A PostgreSQL server of the measurement's own, with its defaults and pg_stat_statements: an extension that a server which is
 * there for others may not have loaded.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const DEBIAN = '/usr/lib/postgresql';

export async function withOwnServer(work) {
  const bin = binaries();
  const directory = mkdtempSync(path.join(tmpdir(), 'expunge-bench-'));
  const port = 20_000 + (randomBytes(2).readUInt16BE() % 20_000);
  const run = asServerUser(directory);
  run(`${bin}/initdb`, '-D', `${directory}/data`, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8');
  const settings = `-p ${port} -k ${directory} -c listen_addresses=127.0.0.1 -c shared_preload_libraries=pg_stat_statements`;
  run(`${bin}/pg_ctl`, '-D', `${directory}/data`, '-o', settings, '-l', `${directory}/log`, '-w', 'start');
  try {
    return await work(`postgres://postgres@127.0.0.1:${port}/postgres`);
  } finally {
    run(`${bin}/pg_ctl`, '-D', `${directory}/data`, '-m', 'immediate', '-w', 'stop');
    rmSync(directory, { recursive: true, force: true });
  }
}

function binaries() {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : [];
  const found = versions.map((version) => `${DEBIAN}/${version}/bin`).find((bin) => existsSync(`${bin}/initdb`));
  if (found === undefined) throw new Error(`No PostgreSQL server in ${DEBIAN}: install Debian's package postgresql.`);
  return found;
}

/** The server refuses to run as root: there it runs as the user of Debian's package. */
function asServerUser(directory) {
  const options = { cwd: directory, stdio: ['ignore', 'ignore', 'inherit'] };
  if (process.getuid?.() !== 0) return (command, ...args) => execFileSync(command, args, options);
  const id = (flag) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  chownSync(directory, id('-u'), id('-g'));
  chmodSync(directory, 0o700);
  return (command, ...args) => execFileSync('runuser', ['-u', 'postgres', '--', command, ...args], options);
}
