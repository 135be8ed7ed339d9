/** What a user writes to say which rows of a database are a person's: types for the compiler, checks at load. */
import { z } from 'zod';
import type { JsonValue } from '../../storage/json.js';
import { TargetDeclarationError } from '../target-error.js';

/** Rows of the subject by their own columns. All columns together are one key: each must equal its identifier. */
export interface ByKey<I extends string> {
  /** Column to identifier: `{ customer_id: 'customerId' }`. */
  readonly key: { readonly [column: string]: I };
  readonly through?: never;
}

/** Rows of the subject by the row of another declared table that they belong to. */
export interface ByParent {
  /**
   * The parent: the name of a declared table in the same schema, where one foreign key leads to it; or a table with the
   * columns that lead to it. Where the parent has several rules, the name of the place is meant: `message(sender_id)`.
   */
  readonly through: string | ParentTable;
  readonly key?: never;
}

/** A parent with its columns named, for a relation without a foreign key or with several. */
export interface ParentTable {
  readonly table: string;
  /** The parent's schema; by default that of the referencing table. */
  readonly schema?: string;
  /** Column of this table to column of the parent: `{ visit_no: 'no' }`. */
  readonly on: { readonly [column: string]: string };
}

/** The obligation under which rows stay, and how long. */
export interface Keep {
  /** The obligation in words, as the receipt is to name it: `tax law`. */
  readonly basis: string;
  /** The column (with `through`: the parent's) of type date or timestamp from which the time runs. */
  readonly from: string;
  /** An ISO 8601 duration: `P10Y`. */
  readonly for: `P${string}`;
}

/** The rows are deleted. */
export interface DeleteRows {
  readonly action: 'delete';
  /** True for sessions and tokens: the rows are also deleted by `revoke`, before anything else of the subject is erased. */
  readonly revoke?: boolean;
  readonly set?: never;
  readonly keep?: never;
}

/** The rows stay without what they say of the person. */
export interface AnonymizeRows {
  readonly action: 'anonymize';
  /**
   * The columns to overwrite and with what; objects and arrays are written as JSON. A rule that leaves a column of its
   * key in place is reported as `pseudonymize`, because the row still leads to the person.
   */
  readonly set: { readonly [column: string]: JsonValue };
  readonly keep?: Keep;
  readonly revoke?: never;
}

/** The rows stay as they are until their time is over. */
export interface RetainRows {
  readonly action: 'retain';
  readonly keep: Keep;
  readonly set?: never;
  readonly revoke?: never;
}

/**
 * One relation of a table to a subject.
 *
 * @typeParam I - names of identifiers.
 */
export type TableRule<I extends string = string> = (ByKey<I> | ByParent) & (DeleteRows | AnonymizeRows | RetainRows);

/** Tables by their exact name in the catalogue, without quotes. A list of rules stands for several relations. */
export interface Tables<I extends string = string> {
  readonly [table: string]: TableRule<I> | readonly TableRule<I>[];
}

/** One rule in the form that everything else works with. */
export interface DeclaredPlace {
  readonly place: string;
  readonly schema: string;
  readonly table: string;
  readonly link: DeclaredLink;
  readonly action: 'delete' | 'anonymize' | 'retain';
  readonly set: Readonly<Record<string, JsonValue>>;
  readonly keep: Keep | null;
  readonly revoke: boolean;
}

export type DeclaredLink =
  | { readonly by: 'key'; readonly columns: readonly { readonly column: string; readonly identifier: string }[] }
  | {
      readonly by: 'parent';
      readonly schema: string;
      /** A table, or a place of one that has several rules. */
      readonly parent: string;
      readonly on: readonly { readonly column: string; readonly parentColumn: string }[] | null;
    };

const name = z.string().min(1).max(63);
const names = (value: z.ZodType) =>
  z.record(name, value).refine((record) => Object.keys(record).length > 0, 'at least one entry');
// Seconds and fractions are no retention periods, and "P" alone is none either.
const duration = z
  .string()
  .regex(
    /^P(?=\d)(?=.*[1-9])(\d{1,4}Y)?(\d{1,4}M)?(\d{1,4}W)?(\d{1,5}D)?$/,
    'an ISO 8601 duration of years, months, weeks or days such as "P10Y"',
  );
const keep = z.strictObject({ basis: z.string().trim().min(1), from: name, for: duration });

const linked = {
  key: names(name).optional(),
  through: z.union([name, z.strictObject({ table: name, schema: name.optional(), on: names(name) })]).optional(),
};
const rule = z
  .discriminatedUnion('action', [
    z.strictObject({ ...linked, action: z.literal('delete'), revoke: z.boolean().optional() }),
    z.strictObject({ ...linked, action: z.literal('anonymize'), set: names(z.json()), keep: keep.optional() }),
    z.strictObject({ ...linked, action: z.literal('retain'), keep }),
  ])
  .refine(({ key, through }) => (key === undefined) !== (through === undefined), 'either key or through');
/** Rules for the tables of one schema. */
export const tablesSchema = z.record(name, z.union([rule, z.array(rule).min(1)]));

/** The part of every declaration that says which rows are a subject's. */
export interface Rules<I extends string = string> {
  /** Tables of the default schema. */
  readonly tables?: Tables<I>;
  /** Tables of other schemas, by the schema's name. */
  readonly schemas?: { readonly [schema: string]: Tables<I> };
}

/** Which declaration is read. */
export interface DeclarationForm {
  /** The function that the user called, for messages: `postgres`. */
  readonly kind: string;
  readonly schema: z.ZodType;
  /** The schema of `tables`, which places are not named with. */
  readonly defaultSchema: string;
}

/**
 * Checks a declaration and lists its places in the order of the declaration.
 *
 * @throws TargetDeclarationError that names the field, what was found and what is expected. Never a `url`: it may hold a
 * password.
 */
export function parseRules(form: DeclarationForm, options: Rules): readonly DeclaredPlace[] {
  const { kind, schema: expected, defaultSchema } = form;
  const parsed = expected.safeParse(options);
  if (!parsed.success) throw refused(kind, options, parsed.error.issues[0]!);
  const declared: DeclaredPlace[] = [];
  for (const [schema, ofSchema] of schemasOf(options, defaultSchema)) {
    const prefix = schema === defaultSchema ? '' : `${schema}.`;
    for (const [table, rules] of Object.entries(ofSchema)) declared.push(...placesOf(schema, prefix, table, rules));
  }
  if (declared.length === 0) {
    throw new TargetDeclarationError(`${kind}(): tables: found none, expected at least one table with a rule.`, {
      target: kind,
    });
  }
  refuseDuplicates(kind, declared);
  return declared;
}

function schemasOf(options: Rules, defaultSchema: string): readonly (readonly [string, Tables])[] {
  return [[defaultSchema, options.tables ?? {}], ...Object.entries(options.schemas ?? {})];
}

function placesOf(
  schema: string,
  prefix: string,
  table: string,
  rules: TableRule | readonly TableRule[],
): readonly DeclaredPlace[] {
  const name = `${prefix}${table}`;
  const list = Array.isArray(rules) ? (rules as readonly TableRule[]) : [rules as TableRule];
  const links = list.map((rule) => linkOf(schema, rule));
  return list.map((rule, index) => ({
    place: list.length === 1 ? name : `${name}(${relationNames(links)[index]})`,
    schema,
    table,
    link: links[index]!,
    action: rule.action,
    set: rule.set ?? {},
    keep: rule.keep ?? null,
    revoke: rule.revoke ?? false,
  }));
}

function linkOf(schema: string, rule: TableRule): DeclaredLink {
  if (rule.key) {
    return { by: 'key', columns: Object.entries(rule.key).map(([column, identifier]) => ({ column, identifier })) };
  }
  if (typeof rule.through === 'string') return { by: 'parent', schema, parent: rule.through, on: null };
  const { table, schema: parentSchema, on } = rule.through;
  return {
    by: 'parent',
    schema: parentSchema ?? schema,
    parent: table,
    on: Object.entries(on).map(([column, parentColumn]) => ({ column, parentColumn })),
  };
}

/** What tells the rules of one table apart: the columns, and where these are the same, what they are compared with. */
function relationNames(links: readonly DeclaredLink[]): readonly string[] {
  const short = links.map((link) => {
    if (link.by === 'key') return link.columns.map(({ column }) => column).join(', ');
    return link.on ? link.on.map(({ column }) => column).join(', ') : `through ${link.parent}`;
  });
  return links.map((link, index) => {
    if (short.filter((name) => name === short[index]).length === 1) return short[index]!;
    if (link.by === 'key') return link.columns.map(({ column, identifier }) => `${column} = ${identifier}`).join(', ');
    return `${short[index]} through ${link.parent}`;
  });
}

function refuseDuplicates(kind: string, declared: readonly DeclaredPlace[]): void {
  const seen = new Set<string>();
  for (const { place } of declared) {
    if (seen.has(place)) {
      throw new TargetDeclarationError(
        `${kind}(): found the place "${place}" twice, expected every table and every relation of it once.`,
        { target: kind, place },
      );
    }
    seen.add(place);
  }
}

function refused(kind: string, options: Rules, issue: z.core.$ZodIssue): TargetDeclarationError {
  const deepest = deepestIssue(issue);
  const path = deepest.path.map(String);
  const expected = expectation(deepest);
  return new TargetDeclarationError(
    `${kind}(): ${path.join('.') || 'the options'}: found ${foundAt(options, deepest.path)}, expected ${expected}.`,
    { target: kind },
  );
}

/** Of a union's branches, the one that got furthest is the one that was meant. */
function deepestIssue(issue: z.core.$ZodIssue, above: readonly PropertyKey[] = []): z.core.$ZodIssue {
  const here = { ...issue, path: [...above, ...issue.path] };
  if (issue.code !== 'invalid_union') return here;
  const inner = issue.errors.flat().map((nested) => deepestIssue(nested, here.path));
  const furthest = inner.reduce((best, next) => (next.path.length > best.path.length ? next : best), here);
  return furthest.path.length > here.path.length || inner.length === 0 ? furthest : (inner[0] ?? here);
}

function expectation(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'unrecognized_keys':
      return `no ${issue.keys.map((key) => `"${key}"`).join(', ')}`;
    case 'invalid_type':
      return issue.expected === 'nonoptional' ? 'a value' : `${issue.expected}`;
    case 'invalid_value':
      return issue.values.map((value) => `"${String(value)}"`).join(' or ');
    case 'invalid_union':
      return issue.discriminator === 'action' ? '"delete", "anonymize" or "retain"' : 'another form';
    case 'too_small':
      return `at least ${issue.minimum} ${issue.origin === 'string' ? 'characters' : 'entries'}`;
    case 'too_big':
      return `at most ${issue.maximum}`;
    default:
      return issue.message;
  }
}

/** What stands at a path, shortened. The declaration holds names and no personal data; the URL is never shown. */
function foundAt(options: Rules, path: readonly PropertyKey[]): string {
  if (path[0] === 'url') return 'something else';
  let found: unknown = options;
  for (const step of path) found = (found as Record<PropertyKey, unknown> | undefined)?.[step];
  if (found === undefined) return 'nothing';
  if (typeof found === 'object' && found !== null)
    return Array.isArray(found) ? 'a list' : `{ ${Object.keys(found).join(', ')} }`;
  return JSON.stringify(found).slice(0, 80);
}

/** The identifiers that the declared keys name. */
export function identifiersOfPlaces(declared: readonly DeclaredPlace[]): readonly string[] {
  const used = declared.flatMap(({ link }) =>
    link.by === 'key' ? link.columns.map(({ identifier }) => identifier) : [],
  );
  return [...new Set(used)].sort();
}
