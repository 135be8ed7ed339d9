/** What the erasure workflow needs to know of a configuration. */
import type { TargetDeclaration } from '../../targets/target.js';

export interface ErasureSettings {
  /** Separates the references of tenants. */
  readonly tenant: string;
  /** In the order in which they are declared. */
  readonly targets: Readonly<Record<string, TargetDeclaration>>;
  /** Whether one of these identifiers, by name, is of somebody who is never deleted (WF-9). */
  readonly isProtected: (identifiers: Readonly<Record<string, string>>) => boolean;
  readonly bounds: { readonly rows: number; readonly drift: number };
  /** How old an approval may be when the gate begins; ISO 8601. */
  readonly approvalsExpireAfter: string;
  /** The longest age of a delayed message, in seconds. */
  readonly settleSeconds: number;
  /** How long a tombstone outlives the deletion, in seconds. */
  readonly tombstoneSeconds: number;
  /** How long backups are kept, as declared; ISO 8601. */
  readonly backupHorizon: string;
  readonly backupHorizonSeconds: number;
  /** Whether a one-way token takes the place of the reference at the end. */
  readonly receiptToken: boolean;
  /** Rows, objects or keys in one slice of an erase; `SLICE_ROWS` unless a worker was told otherwise. */
  readonly sliceRows: number;
}

/** How long one call to a target may take before it counts as not answered, in milliseconds. */
export const CALL_LIMIT_MS = 120_000;
/**
 * Rows, objects or keys in one slice of an erase, over all subjects of a batch together. A slice costs a few statements and a save
 * whatever its size, so that small ones multiply them: ten thousand people of ten rows each are two slices. More gains nothing,
 * and makes an order, which takes effect between two slices, wait longer.
 */
export const SLICE_ROWS = 50_000;
