/** What a command works with: the client, opened as the configuration or the environment says, and closed again. */
import type { Client } from '../client/client.js';
import type { ResolvedConfig } from '../config/resolved-config.js';
import { isExpungeError } from '../observe/expunge-error.js';
import type { Log } from '../observe/log.js';
import { tell } from './output.js';

/** Where a command finds its configuration. */
export interface Place {
  /** The file that `--config` names. */
  readonly config?: string;
  /** The training group needs a database and nothing else (OP-11). */
  readonly training?: boolean;
  /**
   * Whether erasures are run. Without a configuration every one of them would look like one whose plan was changed, and a
   * worker that is started in the wrong directory must not block them all.
   */
  readonly forErasures?: boolean;
  /** Of `ClientOptions`. */
  readonly sliceRows?: number;
}

/**
 * Opens what the command needs, does its work and closes everything.
 * @throws what opening and the work throw.
 */
export async function withSession<T>(place: Place, work: (client: Client, log: Log) => Promise<T>): Promise<T> {
  const log = await openLog();
  const client = await openClient(place, log);
  try {
    return await work(client, log);
  } finally {
    await client.close();
  }
}

/** Training goes on without a usable configuration; whoever has one should still hear that it is broken. */
async function openClient(place: Place, log: Log): Promise<Client> {
  // Loaded here, so that --help and wrong usage answer at once.
  const { createClient } = await import('../client/client.js');
  try {
    const { sliceRows } = place;
    return await createClient(await configOf(place), { log, ...(sliceRows === undefined ? {} : { sliceRows }) });
  } catch (error) {
    if (!mayGoWithout(place, error)) throw error;
    tell(`expunge: ${(error as Error).message} Going on with EXPUNGE_DATABASE_URL alone.`);
    return createClient(await configFromEnvironment(), { log });
  }
}

/** @throws ConfigError, ConfigLoadError */
export async function configOf({ config: file, forErasures }: Place): Promise<ResolvedConfig> {
  const { loadConfig } = await import('../config/load-config.js');
  const { config } = await loadConfig({ file });
  if (forErasures !== true || (config.subject !== null && config.keys !== null)) return config;
  const { ConfigLoadError } = await import('../config/config-error.js');
  throw new ConfigLoadError(
    config.subject === null
      ? 'There is no expunge.config.ts here, and erasures need one: change the directory, name it with --config, or write one with expunge init.'
      : 'The configuration names no key file, and erasures need one: set keys.file, which expunge init explains.',
  );
}

async function configFromEnvironment(): Promise<ResolvedConfig> {
  return (await import('../config/load-config.js')).configFromEnvironment();
}

/** Whether it is the configuration or its key ring that is at fault, and the environment names a database all the same. */
function mayGoWithout(place: Place, error: unknown): boolean {
  if (place.training !== true || place.config !== undefined || !process.env['EXPUNGE_DATABASE_URL']) return false;
  return ['CONFIG_INVALID', 'CONFIG_NOT_LOADED', 'KEY_RING'].some((code) => isExpungeError(error, code));
}

/** The log of this process, at the level that `EXPUNGE_LOG` asks for. */
async function openLog(): Promise<Log> {
  const { createLog, logLevelFromEnvironment } = await import('../observe/log.js');
  return createLog({ level: logLevelFromEnvironment() });
}
