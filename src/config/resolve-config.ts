/** Checks a configuration, and completes it with the defaults. */
import type { z } from 'zod';
import { normaliseIdentifier } from '../subject/identifier.js';
import { ConfigError } from './config-error.js';
import { describeIssues, expectationOf } from './config-issues.js';
import { configSchema, type ParsedConfig, type ParsedSettings, settingsSchema } from './config-schema.js';
import { findContradictions } from './contradictions.js';
import { type DatabaseSource, isResolvedConfig, type ResolvedConfig, sealResolved } from './resolved-config.js';

/**
 * Checks a configuration, fills in the defaults and freezes it. One that was checked before is answered as it is.
 *
 * @param input - what a configuration file exports; anything, because JavaScript users have no compiler.
 * @throws ConfigError where a field is wrong, missing or unknown, or two of them contradict each other.
 */
export function resolveConfig(input: unknown): ResolvedConfig {
  if (isResolvedConfig(input)) return input;
  const config = parse(configSchema, input);
  const [first, ...others] = findContradictions(config);
  if (first !== undefined) throw new ConfigError([first, ...others]);
  return complete(config, config);
}

/**
 * The configuration of somebody who has no file: the defaults, with this database. It has no subject and no targets.
 *
 * @param database - a PostgreSQL URL; undefined for the embedded database.
 * @throws ConfigError where it is no PostgreSQL URL.
 */
export function resolveWithoutFile(database: string | undefined): ResolvedConfig {
  return complete(parse(settingsSchema, { database }), null);
}

function parse<T>(schema: z.ZodType<T>, input: unknown): T {
  const result = schema.safeParse(input, { error: expectationOf });
  if (result.success) return result.data;
  const [first, ...others] = describeIssues(result.error.issues, input);
  // A schema that refuses says why.
  if (first === undefined) throw result.error;
  throw new ConfigError([first, ...others]);
}

function complete(settings: ParsedSettings, scope: Pick<ParsedConfig, 'subject' | 'targets'> | null): ResolvedConfig {
  return sealResolved({
    database: databaseSource(settings),
    keys: settings.keys?.file === undefined ? null : Object.freeze({ file: settings.keys.file }),
    tenant: settings.tenant ?? null,
    subject: scope === null ? null : deepFreeze(scope.subject),
    fences: deepFreeze(settings.fences),
    targets: Object.freeze({ ...scope?.targets }),
    approvals: deepFreeze(settings.approvals),
    bounds: deepFreeze(settings.bounds),
    protected: deepFreeze(scope === null ? {} : normaliseProtected(settings.protected, scope.subject.identifiers)),
    settle: deepFreeze(settings.settle),
    tombstones: deepFreeze(settings.tombstones),
    backups: deepFreeze(settings.backups),
    receipts: deepFreeze(settings.receipts),
  });
}

function databaseSource({ database, embedded }: ParsedSettings): DatabaseSource {
  if (database !== undefined) return Object.freeze({ kind: 'postgres', url: database });
  return Object.freeze({
    kind: 'pglite',
    directory: embedded?.directory ?? '.expunge',
    allowInProduction: embedded?.allowInProduction ?? false,
    declared: embedded !== undefined,
  });
}

function normaliseProtected(
  lists: ParsedConfig['protected'],
  identifiers: ParsedConfig['subject']['identifiers'],
): Readonly<Record<string, readonly string[]>> {
  const normalised = Object.entries(identifiers).map(([name, declaration]) => {
    const values = Object.hasOwn(lists, name) ? (lists[name] ?? []) : [];
    return [name, values.map((value) => normaliseIdentifier(name, declaration, value).value)] as const;
  });
  return Object.fromEntries(normalised);
}

/** For what the schema made; the declarations of targets are their authors' and are left alone. */
function deepFreeze<T extends object>(value: T): T {
  for (const part of Object.values(value)) {
    if (typeof part === 'object' && part !== null) deepFreeze(part as object);
  }
  return Object.freeze(value);
}
