/** What the erasure workflow takes from a configuration. */
import { Temporal } from 'temporal-polyfill';
import type { IsoDuration } from '../config/iso-duration.js';
import { isProtected } from '../config/protected.js';
import type { ResolvedConfig } from '../config/resolved-config.js';
import { type ErasureSettings, SLICE_ROWS } from '../workflows/erasure/settings.js';

/** The tenant of an installation that names none. */
const ONLY_TENANT = 'default';
/** July and August have 31 days: counted from here, months are as long as they can be. */
const LONG_MONTHS = Temporal.PlainDate.from('2001-07-01');

export function erasureSettings(config: ResolvedConfig, sliceRows: number = SLICE_ROWS): ErasureSettings {
  return {
    tenant: tenantOf(config),
    targets: config.targets,
    isProtected: (identifiers) =>
      isProtected(config, { identifiers: Object.entries(identifiers).map(([name, value]) => ({ name, value })) }),
    bounds: { rows: config.bounds.rows, drift: config.bounds.drift },
    approvalsExpireAfter: config.approvals.expireAfter.iso,
    settleSeconds: seconds(config.settle.after),
    tombstoneSeconds: seconds(config.tombstones.keep),
    backupHorizon: config.backups.horizon.iso,
    backupHorizonSeconds: seconds(config.backups.horizon),
    receiptToken: config.receipts.token,
    sliceRows,
  };
}

export function tenantOf(config: ResolvedConfig): string {
  return config.tenant ?? ONLY_TENANT;
}

function seconds({ iso, seconds: exact }: IsoDuration): number {
  return exact ?? Temporal.Duration.from(iso).total({ unit: 'seconds', relativeTo: LONG_MONTHS });
}
