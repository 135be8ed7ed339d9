/** What a user writes to say which rows of a PostgreSQL database are a person's. */
import { z } from 'zod';
import type { JsonObject } from '../../storage/json.js';
import { type DeclaredPlace, parseRules, tablesSchema, type Tables } from '../tables/declaration.js';

/** Limits in milliseconds. */
export interface Timeouts {
  /** For a connection to be made; 10 s by default. */
  readonly connect?: number;
  /** For a row or table lock of somebody else; 5 s by default. */
  readonly lock?: number;
  /** For one statement; 60 s by default. */
  readonly statement?: number;
  /** For the clean-up of one table after an erase (VACUUM, ANALYZE); an hour by default. */
  readonly cleanup?: number;
}

export interface PostgresOptions<I extends string = string> {
  /** Where to connect. May be absent where the target is only declared and never opened, as in an application. */
  readonly url: string | undefined;
  /** The name of the fence in `fences` that guards this database. */
  readonly fence?: string;
  /** Tables of the schema `public`. */
  readonly tables?: Tables<I>;
  /** Tables of other schemas, by the schema's name. */
  readonly schemas?: { readonly [schema: string]: Tables<I> };
  readonly timeouts?: Timeouts;
}

const name = z.string().min(1).max(63);
const milliseconds = z.int().min(1).max(3_600_000);

const optionsSchema = z.strictObject({
  url: z.string().min(1).optional(),
  fence: z.string().min(1).optional(),
  tables: tablesSchema.optional(),
  schemas: z.record(name, tablesSchema).optional(),
  timeouts: z
    .strictObject({
      connect: milliseconds.optional(),
      lock: milliseconds.optional(),
      statement: milliseconds.optional(),
      cleanup: milliseconds.optional(),
    })
    .optional(),
});

/**
 * Checks a declaration and lists its places in the order of the declaration.
 *
 * @throws TargetDeclarationError that names the field, what was found and what is expected. Never the URL: it may hold a
 * password.
 */
export function parseDeclaration(options: PostgresOptions): readonly DeclaredPlace[] {
  return parseRules({ kind: 'postgres', schema: optionsSchema, defaultSchema: 'public' }, options);
}

/** The declaration as plain JSON, for the plan. Undefined members are left out. */
export function declarationJson({ fence, tables, schemas, timeouts }: PostgresOptions): JsonObject {
  return JSON.parse(JSON.stringify({ fence, tables, schemas, timeouts })) as JsonObject;
}
