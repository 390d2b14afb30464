import { DuctileError, toDuctileError } from '../base/errors.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { REDACTED } from '../base/secrets.ts';
import { authorize } from '../access/authorize.operations.ts';
import type { Context } from './context.ts';
import { isOffered, type JsonOutput, type Operation } from './define.ts';
import { checkFieldNames, pickFields, readFieldNames } from './result/pick-fields.ts';
import { describeResult } from './schema.ts';
import { seesHidden, veilEngine } from '../access/visibility.operations.ts';
import { hasFields } from './request-codec.ts';
import { takeWriteMode } from './write-mode.ts';
import * as z from 'zod';

type Issues = z.core.$ZodIssue[];

/** The only way to run an operation: checked input in, output or an error of the catalogue out. */
export async function invoke(
  operation: Operation,
  context: Context,
  raw: unknown = {},
): Promise<JsonOutput> {
  try {
    const { dryRun, rest: given } = takeWriteMode(operation, raw);
    const { fields, rest } = takeFields(operation, given);
    if (hasLongList(rest)) await refuseLongList(operation, rest);
    const said = readNulls(operation, rest);
    const { success, data: input, error } = operation.input.safeParse(said);
    if (!success) throw await refuse(operation, said, error.issues);
    authorize(operation, context, input);
    const seen = veil(operation, context);
    if (dryRun && operation.plan !== undefined) {
      return { dry_run: true, plan: await operation.plan(seen, input) };
    }
    const output = await operation.run(seen, input);
    return fields === undefined ? output : pickFields(output, fields, describeResult(operation));
  } catch (thrown) {
    throw toDuctileError(thrown);
  }
}

/** Operations that read get covered rows. Streams share what they read, and cover it themselves. */
function veil({ effect, http, needs }: Operation, context: Context): Context {
  const isStream = isOffered(http) && http.isStream === true;
  // Operations on files have no engine, and may be called without one.
  if (effect !== 'read' || isStream || needs === 'files') return context;
  if (seesHidden(context.principal)) return context;
  return { ...context, engine: veilEngine(context.engine, context.principal) };
}

function takeFields(
  operation: Operation,
  raw: unknown,
): { fields: readonly string[] | undefined; rest: unknown } {
  if (!hasFields(operation) || !isObject(raw) || !('fields' in raw)) {
    return { fields: undefined, rest: raw };
  }
  const { fields: given, ...rest } = raw;
  const fields = readFieldNames(given);
  checkFieldNames(fields, describeResult(operation));
  return { fields, rest };
}

function hasLongList(raw: unknown): boolean {
  if (!isObject(raw)) return false;
  return Object.values(raw).some((one) => Array.isArray(one) && one.length > limits.inputListMax);
}

/** A schema reports every wrong entry, so a list of 100,000 is refused before it is checked. */
async function refuseLongList({ input }: Operation, raw: unknown): Promise<void> {
  const { findLongList } = await import('../config/issues.ts');
  const field = findLongList(input, raw);
  if (field === undefined) return;
  const message = `${field} must be a list of at most ${limits.inputListMax} entries`;
  throw new DuctileError('INPUT_INVALID', message, { place: field });
}

/** What explains an input is loaded with the first one that is wrong. */
async function refuse(
  { input, secrets = [] }: Operation,
  raw: unknown,
  issues: Issues,
): Promise<DuctileError> {
  const { describeIssues } = await import('../config/issues.ts');
  const value = isObject(raw) ? hide(raw, secrets) : raw;
  const where = { value, problems: [], placeOf: () => '' };
  const problems = describeIssues(issues, input, where, { whole: 'the request' });
  const [first] = problems;
  const hints = new Set(problems.map(({ hint }) => hint));
  const [hint] = hints.size === 1 ? hints : [];
  const message = problems.map(({ key, message: said }) => `${key} ${said}`.trim()).join('; ');
  return new DuctileError('INPUT_INVALID', message, {
    ...(first === undefined || first.key === '' ? {} : { place: first.key }),
    ...(hint === undefined ? {} : { hint }),
  });
}

/** What is wrong with a secret is told without it. */
function hide(raw: Readonly<JsonObject>, secrets: readonly string[]): JsonObject {
  const hidden = secrets.filter((field) => raw[field] !== undefined && raw[field] !== null);
  return { ...raw, ...Object.fromEntries(hidden.map((field) => [field, REDACTED])) };
}

/**
 * Many programs write null for what they do not say. What that means is said by the operation: to
 * one that deletes what a filter finds, a filter that is null by mistake must stay an error.
 */
export function readNulls({ nulls, input }: Operation, raw: unknown): unknown {
  if (nulls === undefined || !isObject(raw)) return raw;
  const [said, unsaid] = split(input, raw);
  if (nulls === 'absent' || unsaid.length === 0) return said;
  const { unset } = said;
  return { ...said, unset: [...(Array.isArray(unset) ? unset : []), ...unsaid] };
}

type Fields = Readonly<Record<string, unknown>>;

/** Only keys that may be left out are left out, so nobody misses one that they sent. */
function split(schema: z.ZodObject, raw: Fields): [said: Fields, unsaid: string[]] {
  const unsaid = Object.keys(raw).filter((key) => raw[key] === null && canBeLeftOut(schema, key));
  const said = Object.entries(raw).filter(([key]) => !unsaid.includes(key));
  return [
    Object.fromEntries(said.map(([key, value]) => [key, within(schema, key, value)])),
    unsaid,
  ];
}

function canBeLeftOut({ shape }: z.ZodObject, key: string): boolean {
  const field = shape[key];
  if (!(field instanceof z.ZodType)) return false;
  return field.safeParse(undefined).success && !field.safeParse(null).success;
}

/** A list of reports is read like each of them. */
function within({ shape }: z.ZodObject, key: string, value: unknown): unknown {
  const field = shape[key];
  if (!(field instanceof z.ZodArray) || !Array.isArray(value)) return value;
  const { element } = field;
  if (!(element instanceof z.ZodObject)) return value;
  return value.map((one: unknown) => (isObject(one) ? split(element, one)[0] : one));
}
