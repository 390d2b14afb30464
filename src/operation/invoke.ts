import type * as z from 'zod';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { REDACTED } from '../base/secrets.ts';
import { authorize } from '../access/authorize.operations.ts';
import type { Context } from './context.ts';
import { isOffered, type JsonOutput, type Operation } from './define.ts';
import { readNulls } from './nulls.ts';
import { checkFieldNames, pickFields, readFieldNames } from './result/pick-fields.ts';
import { describeResult } from './result/result-shape.ts';
import { seesHidden, veilEngine } from '../access/visibility.operations.ts';
import { hasFields } from './request-codec.ts';
import { takeWriteMode } from './write-mode.ts';

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
