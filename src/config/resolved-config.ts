/** The configuration as the product reads it: checked, complete, and frozen. */
import type { IdentifierDeclaration } from '../subject/identifier.js';
import type { TargetDeclaration } from '../targets/target.js';
import type { IsoDuration } from './iso-duration.js';

/** Where Expunge's own tables are. */
export type DatabaseSource =
  | {
      readonly kind: 'postgres';
      /** With its credentials: never printed. */
      readonly url: string;
    }
  | {
      readonly kind: 'pglite';
      /** Relative to the working directory; `.expunge` by default. */
      readonly directory: string;
      /** Whether it may be used although NODE_ENV is `production`. */
      readonly allowInProduction: boolean;
      /** Whether the configuration asks for the embedded database, rather than naming no database at all. */
      readonly declared: boolean;
    };

/** What people are known by. */
export interface SubjectConfig<I extends string = string> {
  /** The identifier that every deletion has to give; the guard knows people by it. */
  readonly key: I;
  /** In the order in which they are declared. */
  readonly identifiers: Readonly<Record<I, IdentifierDeclaration>>;
}

/**
 * A checked configuration with its defaults. Made by `defineConfig`, `loadConfig` and `configFromEnvironment`.
 *
 * @typeParam I - the declared identifiers.
 * @typeParam T - the names of the targets.
 */
export interface ResolvedConfig<I extends string = string, T extends string = string> {
  readonly database: DatabaseSource;
  /** The file of the key ring; null where none is configured, which is enough for `user-deletion`. */
  readonly keys: { readonly file: string } | null;
  /** Separates the references of tenants (contract WF-2); null where there is one. */
  readonly tenant: string | null;
  /** Null only in a configuration that comes from the environment alone. */
  readonly subject: SubjectConfig<I> | null;
  /** Guarded databases by name. The urls hold credentials: never printed. */
  readonly fences: Readonly<Record<string, { readonly url: string }>>;
  /** In the order in which they are declared. */
  readonly targets: Readonly<Record<T, TargetDeclaration>>;
  readonly approvals: {
    /** How many different people have to approve. */
    readonly required: number;
    /** How old an approval may be when the gate begins. */
    readonly expireAfter: IsoDuration;
  };
  readonly bounds: {
    /** Rows, objects and keys that one request may delete, in all. */
    readonly rows: number;
    /** How much one place may grow between its count and the gate. */
    readonly drift: number;
    /** Rows, objects and keys that one batch may delete, in all. */
    readonly batch: number;
  };
  /** Normalised values of people who are never deleted, by identifier. */
  readonly protected: Readonly<Partial<Record<I, readonly string[]>>>;
  /** The longest age of a delayed message, after which every target is counted again. */
  readonly settle: { readonly after: IsoDuration };
  /** How long a tombstone stays after completion (contract REG-6). */
  readonly tombstones: { readonly keep: IsoDuration };
  /** How far back a backup can be restored. */
  readonly backups: { readonly horizon: IsoDuration };
  readonly receipts: {
    /** Whether completion swaps the reference for a one-way receipt token (contract WF-5). */
    readonly token: boolean;
  };
}

/** Recognises a checked configuration across copies of the package: a configuration file may load another one. */
const brand = Symbol.for('expunge.config');

/** Marks a configuration as checked, and freezes it. For `resolveConfig` alone. */
export function sealResolved(config: ResolvedConfig): ResolvedConfig {
  return Object.freeze(Object.defineProperty(config, brand, { value: true }));
}

/** Whether `value` is a configuration that was checked. */
export function isResolvedConfig(value: unknown): value is ResolvedConfig {
  return typeof value === 'object' && value !== null && (value as Record<symbol, unknown>)[brand] === true;
}
