import * as z from 'zod';
import { isObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { maskText, REDACTED } from '../base/secrets.ts';
import { valueAt } from './address.ts';
import { keyText, type Document, type KeyPath, isSecretPath } from './document.ts';
import { nearest, suggest } from '../base/text.ts';
import { makeProblem, type Problem } from './problem.ts';
import type { KeyRefusal } from './refused-keys.ts';

type Issue = z.core.$ZodIssue;

/** Options for the wording of problems. */
interface Wording {
  /** The name of the whole document in messages. */
  readonly whole?: string;
  /** Returns a specific reason why a key is unknown. */
  readonly refusalOf?: (path: KeyPath) => KeyRefusal | undefined;
}

/** Describes the issues of a schema for the author of the document. */
export function describeIssues(
  issues: readonly Issue[],
  schema: z.ZodType,
  document: Document,
  { whole = 'the file', refusalOf = () => undefined }: Wording = {},
): Problem[] {
  // A request with 10,000 unknown keys must not cost 10,000 searches for the nearest known one.
  const described = issues.slice(0, limits.problemsMax).flatMap((issue) => {
    if (issue.code === 'unrecognized_keys') {
      return describeUnknown(issue, schema, document, refusalOf);
    }
    // The text of the file: messages never show the value of a variable.
    const written = valueAt(document.value, issue.path);
    const given =
      typeof written === 'string' || typeof written === 'number'
        ? mask(written, issue.path)
        : written;
    const isMissing = given === undefined || (given === null && !isOptional(schema, issue.path));
    const [predicate, hint] = describeIssue(issue, isMissing ? undefined : given);
    const message = issue.path.length === 0 ? `${whole} ${predicate}` : predicate;
    return [makeProblem(document.placeOf(issue.path), keyText(issue.path), message, hint)];
  });
  return described.slice(0, limits.problemsMax);
}

function mask(written: string | number, path: KeyPath): string | number {
  if (isSecretPath(path) && String(written).trim() !== '') return REDACTED;
  return typeof written === 'string' ? maskText(written) : written;
}

function describeUnknown(
  { keys, path }: z.core.$ZodIssueUnrecognizedKeys,
  schema: z.ZodType,
  document: Document,
  refusalOf: NonNullable<Wording['refusalOf']>,
): Problem[] {
  const known = knownKeys(schema, path);
  return keys.slice(0, limits.problemsMax).map((key) => {
    const at = [...path, key];
    const { message, hint } = refusalOf(at) ?? {
      message: 'is not a known key',
      hint: suggest(key, known, 'keys known here'),
    };
    return makeProblem(document.placeOf(at), keyText(at), message, hint);
  });
}

function describeIssue(issue: Issue, given: unknown): [message: string, hint?: string | undefined] {
  switch (issue.code) {
    case 'invalid_type':
      if (given === undefined) return ['is required'];
      return [`must be ${nameType(issue.expected)}, not ${show(given)}`];
    case 'invalid_value':
      return describeChoice(issue.values.map(String), given);
    case 'too_small':
      if (issue.origin === 'array' && issue.minimum === 1) return ['must not be empty'];
      return [`must be ${bound(issue.origin, 'at least', issue.minimum)}${but(given)}`];
    case 'too_big':
      return [`must be ${bound(issue.origin, 'at most', issue.maximum)}${but(given)}`];
    case 'invalid_format':
      if (typeof given === 'string' && given.trim() === '') return ['must not be blank'];
      return [issue.message];
    case 'invalid_key':
      return [issue.issues[0]?.message ?? issue.message];
    case 'custom':
      return [
        `${issue.message}${issue.params?.['shown'] === true ? `: ${show(given)}` : ''}`,
        hintOf(issue.params),
      ];
    default:
      return [issue.message];
  }
}

function describeChoice(
  choices: readonly string[],
  given: unknown,
): [message: string, hint?: string] {
  if (given === undefined) return ['is required', `Use ${orList(choices)}.`];
  const close = typeof given === 'string' ? nearest(given, choices) : undefined;
  const message = `must be ${orList(choices)}${but(given)}`;
  return close === undefined || choices.length === 1
    ? [message]
    : [message, `Did you mean ${close}?`];
}

function hintOf(params: Record<string, unknown> | undefined): string | undefined {
  const hint = params?.['hint'];
  return typeof hint === 'string' ? hint : undefined;
}

function bound(origin: string, relation: string, limit: number | bigint): string {
  if (origin === 'array') return `a list of ${relation} ${limit} entries`;
  return origin === 'string' ? `${relation} ${limit} characters long` : `${relation} ${limit}`;
}

const typeNames: Readonly<Record<string, string>> = {
  array: 'a list',
  boolean: 'true or false',
  int: 'a whole number',
  number: 'a whole number',
  object: 'a map of keys',
  record: 'a map of keys',
  string: 'text',
};

function nameType(expected: string): string {
  return typeNames[expected] ?? expected;
}

function but(given: unknown): string {
  return given === undefined ? '' : `, not ${show(given)}`;
}

function show(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (isObject(value)) return 'a map of keys';
  const shown = JSON.stringify(value) ?? 'nothing';
  return shown.length > 60 ? `${shown.slice(0, 60)}…` : shown;
}

function orList(choices: readonly string[]): string {
  const shown = choices.map((choice) => (choice === '' ? '""' : choice));
  const last = shown.at(-1) ?? '';
  return shown.length < 2 ? last : `${shown.slice(0, -1).join(', ')} or ${last}`;
}

/** Lists the known keys at a path. */
function knownKeys(schema: z.core.$ZodType, path: KeyPath): string[] {
  const found = schemaAt(schema, path);
  const inner = found === undefined ? undefined : unwrap(found);
  return inner instanceof z.ZodObject ? Object.keys(inner.shape) : [];
}

/** Null counts as missing unless the key is optional. */
function isOptional(schema: z.core.$ZodType, path: KeyPath): boolean {
  const found = schemaAt(schema, path);
  return found !== undefined && z.safeParse(found, undefined).success;
}

function schemaAt(schema: z.core.$ZodType, path: KeyPath): z.core.$ZodType | undefined {
  const [segment, ...rest] = path;
  if (segment === undefined) return schema;
  const next = schemaWithin(unwrap(schema), String(segment));
  return next === undefined ? undefined : schemaAt(next, rest);
}

function schemaWithin(inner: z.core.$ZodType, key: string): z.core.$ZodType | undefined {
  if (inner instanceof z.ZodObject) {
    return (inner.shape as Readonly<Record<string, z.core.$ZodType>>)[key];
  }
  if (inner instanceof z.ZodRecord) return inner.valueType;
  return inner instanceof z.ZodArray ? inner.element : undefined;
}

/** Finds a list that is too long, before a schema checks all entries. */
export function findLongList(schema: z.ZodType, value: unknown): string | undefined {
  const inner = unwrap(schema);
  if (!(inner instanceof z.ZodObject) || !isObject(value)) return undefined;
  return Object.keys(inner.shape).find((key) => {
    const list = value[key];
    if (!Array.isArray(list) || list.length <= limits.inputListMax) return false;
    return unwrap(inner.shape[key] as z.core.$ZodType) instanceof z.ZodArray;
  });
}

/** Returns the schema inside defaults, optional wrappers and preprocessing. */
export function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodPipe) return unwrap(schema.out);
  if (schema instanceof z.ZodLazy) return unwrap(schema.unwrap());
  if (
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault ||
    schema instanceof z.ZodOptional
  ) {
    return unwrap(schema.unwrap());
  }
  return schema;
}
