import type { KeyRing } from '../../keys/key-ring.js';
import type { Counters } from '../../observe/counters.js';
import type { Log } from '../../observe/log.js';
import type { Registry } from '../../registry/registry.js';
import type { Database } from '../../storage/database.js';
import type { OpenTargets } from './open-targets.js';
import type { ErasureSettings } from './settings.js';

/** What the handlers of an erasure work with. */
export interface ErasureDependencies {
  readonly database: Database;
  readonly settings: ErasureSettings;
  /** The worker's: it opens and signs. */
  readonly ring: KeyRing;
  readonly registry: Registry;
  readonly targets: OpenTargets;
  readonly log: Log;
  readonly counters: Counters;
}
