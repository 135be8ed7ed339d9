/** The form of a configuration: what each field may hold, and what stands for it where it is absent. */
import { z } from 'zod';
import { assertPlainJson } from '../storage/plain-json.js';
import { identifierDeclarationSchema, identifierNameSchema } from '../subject/identifier.js';
import type { TargetDeclaration } from '../targets/target.js';
import { parseIsoDuration } from './iso-duration.js';

/*
 * Every `error` here completes the sentence "found …, expected …" and is constant; where a schema of another file has none,
 * `expectationOf` stands in. Zod's own messages are never shown: they do not fit the sentence.
 */

/** Names of targets and fences: they stand in file names, commands, logs and receipts. */
const NAME = /^[a-z0-9-]{1,64}$/;
const nameRule = 'a name of 1 to 64 lower-case letters, digits and hyphens';
const name = z.string().regex(NAME, { error: nameRule });

const identifierName = z.string().refine((text) => identifierNameSchema.safeParse(text).success, {
  error: 'a letter, then letters, digits and underscores, 63 at most',
});

const TENANT = /^[!-~]([ -~]{0,62}[!-~])?$/;
const tenantRule = 'printable text of 1 to 64 characters';

/** An object of exactly these fields. */
function fields<S extends z.ZodRawShape>(shape: S) {
  const known = Object.keys(shape).join(', ');
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? `one of the fields ${known}` : `an object with ${known}`),
  });
}

/** The same, where every field has a default. */
function section<S extends z.ZodRawShape>(shape: S) {
  return fields(shape).prefault({} as z.input<ReturnType<typeof fields<S>>>);
}

function duration(otherwise: string, rule: { positive: boolean }) {
  const expected = `an ISO 8601 duration such as P7D, ${rule.positive ? 'longer than nothing' : 'not negative'} and at most P100Y`;
  return z
    .string({ error: expected })
    .default(otherwise)
    .transform((text, context) => {
      const parsed = parseIsoDuration(text);
      if (parsed !== null && !(rule.positive && parsed.seconds === 0)) return parsed;
      context.issues.push({ code: 'custom', message: expected, input: text });
      return z.NEVER;
    });
}

function whole(least: number, otherwise: number) {
  const error = `a whole number of at least ${String(least)}`;
  return z.int({ error }).min(least, { error }).default(otherwise);
}

function flag() {
  return z.boolean({ error: 'true or false' }).default(false);
}

function path(what: string) {
  return z.string({ error: what }).trim().min(1, { error: what });
}

const postgresUrl = z
  .string({ error: 'a URL that begins with postgres://' })
  .regex(/^postgres(ql)?:\/\/\S+$/, { error: 'a URL that begins with postgres://' });

const locator = z.object(
  {
    target: z.string({ error: 'the name of a target' }),
    place: z.string({ error: 'the name of a place' }),
    column: z.string({ error: 'the name of a column' }),
  },
  { error: 'a target, a place and a column' },
);

const madeBy = 'made by a function such as postgres() or files()';

/** Checked without being copied: a declaration is its author's object, and `open` may need it whole. */
const declaration = z.looseObject(
  {
    kind: z.string({ error: `a kind, as ${madeBy}` }).regex(NAME, { error: nameRule }),
    handlerVersion: z.int({ error: 'a whole number of at least 1' }).min(1, { error: 'a whole number of at least 1' }),
    plan: z.custom(isPlainObject, { error: `a plan in plain JSON, as ${madeBy}` }),
    identifiers: z.array(z.string({ error: 'the name of an identifier' }), { error: 'a list of identifiers' }),
    locators: z.record(z.string(), locator, { error: 'an object of locators' }),
    revokes: z.boolean({ error: 'true or false' }),
    fence: z.string({ error: 'the name of a fence' }).nullish(),
    open: z.custom((value) => typeof value === 'function', { error: `a function, as ${madeBy}` }),
  },
  { error: `a declaration ${madeBy}` },
);

const target = z.custom<TargetDeclaration>().superRefine((value, context) => {
  const checked = declaration.safeParse(value);
  for (const issue of checked.error?.issues ?? [])
    context.addIssue({ code: 'custom', path: issue.path, message: issue.message });
});

function isPlainObject(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  try {
    assertPlainJson(value);
    return true;
  } catch {
    return false;
  }
}

/** Everything that has a default. */
const settings = {
  database: postgresUrl.optional(),
  embedded: fields({
    directory: path('the path of a directory').default('.expunge'),
    allowInProduction: flag(),
  }).optional(),
  keys: fields({ file: path('the path of a key file').optional() }).optional(),
  tenant: z.string({ error: tenantRule }).regex(TENANT, { error: tenantRule }).optional(),
  fences: z.record(name, fields({ url: postgresUrl }), { error: 'an object of fences by name' }).default({}),
  approvals: section({ required: whole(1, 1), expireAfter: duration('P7D', { positive: true }) }),
  bounds: section({ rows: whole(1, 10_000), drift: whole(0, 100), batch: whole(1, 1_000_000) }),
  protected: z
    .record(
      z.string(),
      z.array(z.string({ error: 'the text of an identifier' }), { error: 'a list of values' }).optional(),
      { error: 'an object of lists by identifier' },
    )
    .default({}),
  settle: section({ after: duration('PT0S', { positive: false }) }),
  tombstones: section({ keep: duration('P30D', { positive: true }) }),
  backups: section({ horizon: duration('P0D', { positive: false }) }),
  receipts: section({ token: flag() }),
};

/** A configuration without a subject and targets. */
export const settingsSchema = fields(settings);
export type ParsedSettings = z.output<typeof settingsSchema>;

export const configSchema = fields({
  subject: fields({
    key: z.string({ error: 'the name of a declared identifier' }),
    identifiers: z
      .record(identifierName, identifierDeclarationSchema, { error: 'an object of identifiers by name' })
      .refine((it) => Object.keys(it).length > 0, { error: 'at least one identifier' }),
  }),
  targets: z.record(name, target, { error: 'an object of targets by name' }),
  ...settings,
});

/** A configuration whose fields are right, each by itself. */
export type ParsedConfig = z.output<typeof configSchema>;
