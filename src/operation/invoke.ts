import { DuctileError, toDuctileError } from '../base/errors.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { REDACTED } from '../base/secrets.ts';
import { authorize } from './authorize.ts';
import type { Context } from './context.ts';
import type { JsonOutput, Operation } from './define.ts';
import { checkFieldNames, pickFields, readFieldNames } from './result/pick-fields.ts';
import { describeResult } from './schema.ts';
import { canSeeHidden, maskEngine } from './visibility.ts';
import { readWriteMode, returnsRows } from './request.ts';
import * as z from 'zod';

type Issues = z.core.$ZodIssue[];

/** Runs an operation for a caller: checks input and rights, and throws only errors of the catalogue. */
export async function invoke(
  operation: Operation,
  context: Context,
  raw: unknown = {},
): Promise<JsonOutput> {
  try {
    const { dryRun, rest: given } = readWriteMode(operation, raw);
    const { fields, rest } = readFields(operation, given);
    if (hasLongList(rest)) await refuseLongList(operation, rest);
    const withoutNulls = readNulls(operation, rest);
    const { success, data: input, error } = operation.input.safeParse(withoutNulls);
    if (!success) throw await inputError(operation, withoutNulls, error.issues);
    authorize(operation, context, input);
    const masked = maskContext(operation, context);
    if (dryRun && operation.plan !== undefined) {
      return { dry_run: true, plan: await operation.plan(masked, input) };
    }
    const output = await operation.run(masked, input);
    return fields === undefined ? output : pickFields(output, fields, describeResult(operation));
  } catch (thrown) {
    throw toDuctileError(thrown);
  }
}

/** Masks the rows that an operation reads. Streams share their rows, so they mask them themselves. */
function maskContext(operation: Operation, context: Context): Context {
  // Operations on files have no engine, and may be called without one.
  if (!returnsRows(operation) || operation.needs === 'files') return context;
  if (canSeeHidden(context.principal)) return context;
  return { ...context, engine: maskEngine(context.engine, context.principal) };
}

/** Splits the names of the fields to return from the input. */
function readFields(
  operation: Operation,
  raw: unknown,
): { fields: readonly string[] | undefined; rest: unknown } {
  if (!returnsRows(operation) || !isObject(raw) || !('fields' in raw)) {
    return { fields: undefined, rest: raw };
  }
  const { fields: given, ...rest } = raw;
  const fields = readFieldNames(given);
  checkFieldNames(fields, describeResult(operation));
  return { fields, rest };
}

function hasLongList(raw: unknown): boolean {
  if (!isObject(raw)) return false;
  return Object.values(raw).some(
    (value) => Array.isArray(value) && value.length > limits.inputListMax,
  );
}

/** Refuses a long list before the schema checks it, because the schema reports every wrong entry. */
async function refuseLongList({ input }: Operation, raw: unknown): Promise<void> {
  const { findLongList } = await import('../config/issues.ts');
  const field = findLongList(input, raw);
  if (field === undefined) return;
  const message = `${field} must be a list of at most ${limits.inputListMax} entries`;
  throw new DuctileError('INPUT_INVALID', message, { place: field });
}

/** Creates the error for invalid input. The code that describes it is loaded on demand. */
async function inputError(
  { input, secrets = [] }: Operation,
  raw: unknown,
  issues: Issues,
): Promise<DuctileError> {
  const { describeIssues } = await import('../config/issues.ts');
  const value = isObject(raw) ? maskFields(raw, secrets) : raw;
  const source = { value, problems: [], placeOf: () => '' };
  const problems = describeIssues(issues, input, source, { whole: 'the request' });
  const [first] = problems;
  const hints = new Set(problems.map(({ hint }) => hint));
  const [hint] = hints.size === 1 ? hints : [];
  const sentences = problems.map(({ key, message }) => `${key} ${message}`.trim());
  return new DuctileError('INPUT_INVALID', sentences.join('; '), {
    place: first?.key === '' ? undefined : first?.key,
    hint,
  });
}

/** Masks secrets, so that no error message contains one. */
function maskFields(raw: Readonly<JsonObject>, secrets: readonly string[]): JsonObject {
  const hidden = secrets.filter((field) => raw[field] !== undefined && raw[field] !== null);
  return { ...raw, ...Object.fromEntries(hidden.map((field) => [field, REDACTED])) };
}

/**
 * Converts null in optional fields to what the operation defines, because many programs write null for a
 * missing value. By default null stays an error: a filter that is null by mistake must not delete everything.
 */
function readNulls({ nulls, input }: Operation, raw: unknown): unknown {
  if (nulls === undefined || !isObject(raw)) return raw;
  const [set, nullKeys] = splitNulls(input, raw);
  if (nulls === 'absent' || nullKeys.length === 0) return set;
  const { unset } = set;
  return { ...set, unset: [...(Array.isArray(unset) ? unset : []), ...nullKeys] };
}

type Fields = Readonly<Record<string, unknown>>;

/** Splits optional fields that are null from the others. Null in a required field stays, as an error. */
function splitNulls(schema: z.ZodObject, raw: Fields): [set: Fields, nullKeys: string[]] {
  const nullKeys = Object.keys(raw).filter((key) => raw[key] === null && isOptional(schema, key));
  const set = Object.entries(raw).filter(([key]) => !nullKeys.includes(key));
  return [
    Object.fromEntries(set.map(([key, value]) => [key, dropNulls(schema, key, value)])),
    nullKeys,
  ];
}

function isOptional({ shape }: z.ZodObject, key: string): boolean {
  const field = shape[key];
  if (!(field instanceof z.ZodType)) return false;
  return field.safeParse(undefined).success && !field.safeParse(null).success;
}

/** Drops null fields from the objects of a list. */
function dropNulls({ shape }: z.ZodObject, key: string, value: unknown): unknown {
  const field = shape[key];
  if (!(field instanceof z.ZodArray) || !Array.isArray(value)) return value;
  const { element } = field;
  if (!(element instanceof z.ZodObject)) return value;
  return value.map((entry: unknown) => (isObject(entry) ? splitNulls(element, entry)[0] : entry));
}
