import type { IdentifierDeclaration } from '../subject/identifier.js';
import type { TargetDeclaration } from '../targets/target.js';
import { resolveConfig } from './resolve-config.js';
import type { ResolvedConfig, SubjectConfig } from './resolved-config.js';

/** Targets by name, as they are declared. */
type Targets = Readonly<Record<string, TargetDeclaration>>;

/**
 * What a configuration file says. `undefined` stands for an absent field everywhere, so that environment variables can be
 * written down as they are; where a value is needed, an absent one is refused at load.
 *
 * @typeParam I - the declared identifiers.
 * @typeParam D - the declared targets.
 */
export interface ConfigInput<I extends string = string, D extends Targets = Targets> {
  /** URL of the PostgreSQL database that holds Expunge's own tables. Absent: an embedded one. */
  readonly database?: string | undefined;
  /** The embedded database, which is used where `database` is absent: for trials, one process at a time. */
  readonly embedded?:
    | {
        /** Relative to the working directory; `.expunge` by default. */
        readonly directory?: string | undefined;
        /** Allows it although NODE_ENV is `production`. False by default: it survives no power cut. */
        readonly allowInProduction?: boolean | undefined;
      }
    | undefined;
  /** The key ring. References and sealed identifiers need it; `user-deletion` does not. */
  readonly keys?: { readonly file?: string | undefined } | undefined;
  /** Separates the references of tenants that share a key ring. Printable, 64 characters at most. */
  readonly tenant?: string | undefined;
  readonly subject: {
    /** The identifier that names a person to the guard. Every deletion has to give it. */
    readonly key: NoInfer<I>;
    /** What systems know people by: a letter, then letters, digits and underscores. */
    readonly identifiers: Readonly<Record<I, IdentifierDeclaration>>;
  };
  /** Guarded databases, by a name that targets refer to. */
  readonly fences?: Readonly<Record<string, { readonly url: string | undefined }>> | undefined;
  /** The systems to delete from, by name: lower-case letters, digits and hyphens. */
  readonly targets: D & CheckedTargets<D, NoInfer<I>>;
  readonly approvals?:
    | {
        /** How many different people have to approve; 1 by default. */
        readonly required?: number | undefined;
        /** How old an approval may be when the deletion begins, as ISO 8601; `P7D` by default. */
        readonly expireAfter?: string | undefined;
      }
    | undefined;
  readonly bounds?:
    | {
        /** Rows, objects and keys that one request may delete, in all; 10,000 by default. */
        readonly rows?: number | undefined;
        /** How much one place may grow between its count and the deletion, in rows; 100 by default. */
        readonly drift?: number | undefined;
      }
    | undefined;
  /** Values of people who are never deleted, by identifier. */
  readonly protected?: { readonly [name in NoInfer<I>]?: readonly string[] | undefined } | undefined;
  /** The longest age of a delayed message, as ISO 8601; `PT0S` by default. Targets are counted again when it has passed. */
  readonly settle?: { readonly after?: string | undefined } | undefined;
  /**
   * How long a tombstone stays after completion, as ISO 8601; `P30D` by default. Never shorter than `settle.after` and
   * `backups.horizon` (contract REG-6).
   */
  readonly tombstones?: { readonly keep?: string | undefined } | undefined;
  /** How far back a backup can be restored, as ISO 8601; `P0D` by default. */
  readonly backups?: { readonly horizon?: string | undefined } | undefined;
  readonly receipts?:
    | {
        /** Swap the reference for a one-way receipt token at completion; false by default. */
        readonly token?: boolean | undefined;
      }
    | undefined;
}

/** Every target, or the sentence that says what is wrong with it; the compiler shows it at that target. */
type CheckedTargets<D extends Targets, I extends string> = {
  readonly [N in keyof D]: CheckedTarget<D[N], I, keyof D & string>;
};

type CheckedTarget<T extends TargetDeclaration, I extends string, N extends string> =
  Undeclared<T['identifiers'][number], I> extends infer Missing extends string
    ? [Missing] extends [never]
      ? CheckedLocators<T, N>
      : `the identifier ${Missing} is not declared in subject.identifiers`
    : never;

type CheckedLocators<T extends TargetDeclaration, N extends string> =
  Undeclared<T['locators'][string]['target'], N> extends infer Missing extends string
    ? [Missing] extends [never]
      ? unknown
      : `there is no target ${Missing} to locate it by`
    : never;

/** Those of `Used` that are not among `Known`. A plain `string` tells the compiler nothing, and is checked at load. */
type Undeclared<Used extends string, Known extends string> = string extends Used ? never : Exclude<Used, Known>;

/** A checked configuration from a file: with a subject. */
export type DefinedConfig<I extends string = string, T extends string = string> = ResolvedConfig<I, T> & {
  readonly subject: SubjectConfig<I>;
};

/**
 * Declares where data lives, who people are to these systems, and what a deletion has to keep to. Checks the whole
 * declaration, and answers with it complete and frozen. Opens and reads nothing.
 *
 * @param config - see the fields of {@link ConfigInput}.
 * @throws ConfigError where a field is wrong, missing or unknown, naming all of them.
 *
 * @example
 * ```ts
 * import { defineConfig } from 'expunge';
 * import { postgres } from 'expunge/postgres';
 *
 * export default defineConfig({
 *   database: process.env.EXPUNGE_DATABASE_URL,
 *   subject: { key: 'customerId', identifiers: { customerId: { opaque: true } } },
 *   targets: {
 *     shop: postgres({
 *       url: process.env.SHOP_URL,
 *       tables: { customer: { key: { customer_id: 'customerId' }, action: 'delete' } },
 *     }),
 *   },
 * });
 * ```
 */
export function defineConfig<const I extends string, const D extends Targets>(
  config: ConfigInput<I, D>,
): DefinedConfig<I, keyof D & string> {
  // The types above say the same as the checks, which cannot carry type parameters through a schema.
  return resolveConfig(config) as DefinedConfig<I, keyof D & string>;
}
