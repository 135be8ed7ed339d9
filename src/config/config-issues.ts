/** From what the schema finds to what a person reads, without repeating a secret or an identifier on the way. */
import type { z } from 'zod';
import type { ConfigProblem } from './config-error.js';

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

/** The only fields whose text or number is quoted. Elsewhere stand urls, paths, and the identifiers of protected people. */
const QUOTED = /^(approvals|bounds|settle|tombstones|backups)\.[A-Za-z]+$|\.(normalise|handlerVersion)$/;
const QUOTABLE = /^[A-Za-z0-9+.-]{1,32}$/;
const SHOWN_NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** What should have been there, for schemas that do not say it themselves. */
export function expectationOf(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `a value of type ${issue.expected}`;
    case 'invalid_value':
      return `one of ${issue.values.map(String).join(', ')}`;
    case 'invalid_format':
      return 'text of another form';
    case 'unrecognized_keys':
      return 'only fields that exist';
    default:
      return 'another value';
  }
}

/** Describes every issue of `input`, in the order in which they were found. */
export function describeIssues(issues: readonly Issue[], input: unknown): readonly ConfigProblem[] {
  return issues.flatMap((issue) => describeIssue(issue, input));
}

function describeIssue(issue: Issue, input: unknown): readonly ConfigProblem[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      path: printPath([...issue.path, key]),
      found: 'an unknown field',
      expected: issue.message,
    }));
  }
  if (issue.code === 'invalid_key') {
    const expected = issue.issues[0]?.message ?? issue.message;
    return [{ path: printPath(issue.path), found: 'a name of another form', expected }];
  }
  const path = printPath(issue.path);
  return [{ path, found: describeFound(valueAt(input, issue.path), path), expected: issue.message }];
}

/** `subject.identifiers.email`; a name that may be somebody's is not shown. */
export function printPath(path: Path): string {
  return path.map((key) => (SHOWN_NAME.test(String(key)) ? String(key) : '(a name that is not shown)')).join('.');
}

function valueAt(input: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null ? (value as Record<PropertyKey, unknown>)[key] : undefined,
    input,
  );
}

function describeFound(value: unknown, path: string): string {
  switch (typeof value) {
    case 'undefined':
      return 'nothing';
    case 'string':
      return describeText(value, path);
    case 'number':
      return QUOTED.test(path) ? `the number ${String(value)}` : 'a number';
    case 'boolean':
      return String(value);
    case 'object':
      return value === null ? 'null' : Array.isArray(value) ? 'a list' : 'an object';
    default:
      return `a ${typeof value}`;
  }
}

function describeText(text: string, path: string): string {
  if (text.trim() === '') return 'empty text';
  return QUOTED.test(path) && QUOTABLE.test(text) ? `'${text}'` : 'other text';
}
