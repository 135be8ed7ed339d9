/** What a command works with: the record, opened as the configuration or the environment says, and closed again. */
import type { DeletionRecord } from '../client/record.js';
import type { SubmittedUserDeletion, UserDeletionInput } from '../client/user-deletions.js';
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
}

export interface Session {
  readonly requests: DeletionRecord;
  readonly log: Log;
  submitUserDeletion(input: UserDeletionInput): Promise<SubmittedUserDeletion>;
}

/**
 * Opens what the command needs, does its work and closes everything.
 * @throws what opening and the work throw.
 */
export async function withSession<T>(place: Place, work: (session: Session) => Promise<T>): Promise<T> {
  // Loaded here, so that --help and wrong usage answer at once.
  const [{ openDatabase }, { DeletionRecord }, { submitUserDeletion }, { userDeletion }] = await Promise.all([
    import('../client/open-database.js'),
    import('../client/record.js'),
    import('../client/user-deletions.js'),
    import('../workflows/user-deletion/workflow.js'),
  ]);
  const log = await openLog();
  const config = await configOf(place);
  const database = await openDatabase(config.database);
  try {
    return await work({
      requests: new DeletionRecord(database, log, [userDeletion()]),
      log,
      submitUserDeletion: (input) => submitUserDeletion(database, input),
    });
  } finally {
    await database.close();
  }
}

/** @throws ConfigError, ConfigLoadError */
export async function configOf(place: Place): Promise<ResolvedConfig> {
  const { configFromEnvironment, loadConfig } = await import('../config/load-config.js');
  try {
    const { config } = await loadConfig({ file: place.config });
    return config;
  } catch (error) {
    const isSpare = place.training === true && place.config === undefined && process.env['EXPUNGE_DATABASE_URL'];
    if (!isSpare || !isExpungeError(error)) throw error;
    // Training goes on without a configuration; whoever has one should still hear that it is broken.
    tell(`expunge: ${(error as Error).message} Going on with EXPUNGE_DATABASE_URL alone.`);
    return configFromEnvironment();
  }
}

/** The log of this process, at the level that `EXPUNGE_LOG` asks for. */
async function openLog(): Promise<Log> {
  const { createLog, logLevelFromEnvironment } = await import('../observe/log.js');
  return createLog({ level: logLevelFromEnvironment() });
}
