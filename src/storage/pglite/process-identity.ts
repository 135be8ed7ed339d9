/** Who a process is, beyond its id: ids are given away again. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';

export interface ProcessIdentity {
  /** The machine or container whose process ids these are. */
  readonly host: string;
  readonly pid: number;
  /** When it started, in the system's own words; null where the system does not say. */
  readonly started: string | null;
}

export function ownIdentity(): ProcessIdentity {
  return { host: hostname(), pid: process.pid, started: lookUp(process.pid).started };
}

/**
 * Whether that process still runs, as far as can be told: `elsewhere` when its host is another one, whose processes cannot
 * be seen from here. Errs on the side of life: a start time that cannot be read speaks against nobody.
 */
export function stateOf(identity: ProcessIdentity): 'alive' | 'dead' | 'elsewhere' {
  if (identity.host !== hostname()) return 'elsewhere';
  if (!exists(identity.pid)) return 'dead';
  const { ended, started } = lookUp(identity.pid);
  if (ended) return 'dead';
  const reused = started !== null && identity.started !== null && started !== identity.started;
  return reused ? 'dead' : 'alive';
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

interface Found {
  /** It has ended, and only its parent has not asked yet. */
  readonly ended: boolean;
  readonly started: string | null;
}

function lookUp(pid: number): Found {
  try {
    return process.platform === 'linux' ? readProc(pid) : { ended: false, started: askPs(pid) };
  } catch {
    return { ended: false, started: null };
  }
}

function readProc(pid: number): Found {
  // State and start are the 3rd and the 22nd field; the second, in parentheses, may itself hold spaces and parentheses.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  // Ticks since the boot: after the next one, the first process of a container has the same id and may have the same ticks.
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  const ticks = fields[19];
  return { ended: fields[0] === 'Z' || fields[0] === 'X', started: ticks === undefined ? null : `${boot} ${ticks}` };
}

function askPs(pid: number): string | null {
  // The same words in every process: its language and time zone would change them.
  const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC' };
  return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8', env }).trim() || null;
}
