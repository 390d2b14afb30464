/** Schemas for values that users write in configuration files and requests. */
import * as z from 'zod';
import {
  BYTE_SIZE_FORMS,
  formatByteSize,
  parseByteSize,
  formatDuration,
  parseDuration,
} from './quantity.ts';
import { toTimestamp, type Timestamp } from './clock.ts';
import { DuctileError } from './errors.ts';
import { isObject } from './json.ts';
import { limits } from './limits.ts';

/**
 * A map with exactly these keys. A key without a value (`service:` and nothing after it) counts as
 * absent, because that is what people mean when they comment out the lines below it.
 */
export function strictSection<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.preprocess((value) => dropEmpty(value, shape), z.strictObject(shape));
}

/** A whole number. Text of digits is accepted too, since `${VAR}` always gives text. */
export function count(min: number, max: number = Number.MAX_SAFE_INTEGER) {
  const fromText = (value: unknown): unknown =>
    typeof value === 'string' && /^-?\d{1,15}$/.test(value) ? Number(value) : value;
  return z.preprocess(fromText, z.int().min(min).max(max));
}

export function flag() {
  const words: Readonly<Record<string, boolean>> = { true: true, false: false };
  const fromText = (value: unknown): unknown =>
    typeof value === 'string' ? (words[value] ?? value) : value;
  return z.preprocess(fromText, z.boolean());
}

export function nonBlankText() {
  return z.string().regex(/\S/, 'must not be blank');
}

/** The key that jobs share if only one of them may run at a time. */
export function dependencyKey() {
  return nonBlankText()
    .max(limits.dependencyKeyCharsMax)
    .regex(/^\P{Cc}*$/u, 'must not contain control characters');
}

interface DurationBounds {
  readonly minMs?: number;
  readonly maxMs?: number;
}

/** A duration in milliseconds. */
export function duration({ minMs = 1, maxMs = limits.durationMsMax }: DurationBounds = {}) {
  const fromNumber = (value: unknown): unknown =>
    typeof value === 'number' ? String(value) : value;
  const toMs = z.string().transform((value, context) => {
    const parsed = parseDuration(value);
    if (!parsed.ok) {
      const { message, hint } = parsed;
      context.addIssue({ code: 'custom', message, params: { hint, shown: true } });
      return z.NEVER;
    }
    const bound = parsed.ms < minMs ? `at least ${formatDuration(minMs)}` : undefined;
    const fault = parsed.ms > maxMs ? `at most ${formatDuration(maxMs)}` : bound;
    if (fault !== undefined) context.addIssue({ code: 'custom', message: `must be ${fault}` });
    return parsed.ms;
  });
  const schema = z.preprocess(fromNumber, toMs);
  durations.add(schema);
  return schema;
}

const durations = new WeakSet<z.core.$ZodType>();

/** Checks whether `duration` made a schema, with or without a default. */
export function isDuration(schema: z.core.$ZodType): boolean {
  if (durations.has(schema)) return true;
  const isWrapped = schema instanceof z.ZodDefault || schema instanceof z.ZodOptional;
  return isWrapped && isDuration(schema.unwrap());
}

/** A number of bytes, with or without a unit. A `min` doesn't hold for 0, which means no limit. */
export function byteSize({ min = 0 }: { readonly min?: number } = {}) {
  const fromNumber = (value: unknown): unknown =>
    typeof value === 'number' ? String(value) : value;
  const toBytes = z.string().transform((value, context) => {
    const bytes = parseByteSize(value);
    const isSmall = bytes !== undefined && bytes !== 0 && bytes < min;
    if (bytes !== undefined && !isSmall && Number.isSafeInteger(bytes)) return bytes;
    const message = isSmall ? `must be at least ${formatByteSize(min)}, or 0` : 'is not a size';
    const params = { hint: BYTE_SIZE_FORMS, shown: true };
    context.addIssue({ code: 'custom', message, params });
    return z.NEVER;
  });
  const schema = z.preprocess(fromNumber, toBytes);
  byteSizes.add(schema);
  return schema;
}

const byteSizes = new WeakSet<z.core.$ZodType>();

/** Checks whether `byteSize` made a schema, with or without a default. */
export function isByteSize(schema: z.core.$ZodType): boolean {
  if (byteSizes.has(schema)) return true;
  const isWrapped = schema instanceof z.ZodDefault || schema instanceof z.ZodOptional;
  return isWrapped && isByteSize(schema.unwrap());
}

/** A point in time in RFC 3339 with its offset, converted to a `Timestamp`. */
export function moment() {
  return z
    .string()
    .refine((value) => RFC_3339.test(value) && isWritable(Date.parse(value)), {
      error: 'is not a time with a UTC offset',
      params: { hint: MOMENT_FORMS, shown: true },
    })
    .transform((value) => toTimestamp(Date.parse(value)));
}

/** Checks that the year has four digits, because timestamps are sorted as text. */
function isWritable(ms: number): boolean {
  return ms >= 0 && ms < Date.parse('9999-01-01T00:00:00Z');
}

const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/;
const MOMENT_FORMS = 'Write it like 2026-11-15T22:30:00Z or 2026-11-15T23:30:00+01:00.';

/** A duration that a timer waits for. */
export function timer(minMs = 1) {
  return duration({ minMs, maxMs: limits.timerMsMax });
}

function dropEmpty(value: unknown, shape: z.ZodRawShape): unknown {
  if (value === null) return {};
  if (!isObject(value)) return value;
  const filled = Object.entries(value).filter(
    ([key, inner]) => inner !== null || !Object.hasOwn(shape, key),
  );
  return Object.fromEntries(filled);
}

/** The fields with which a caller puts off a job, a run or a directive. */
export const dueFields = {
  run_at: moment()
    .optional()
    .describe('earliest start, such as 2026-11-15T22:30:00Z (default: now)'),
  delay: duration({ minMs: 0, maxMs: limits.delayMsMax })
    .optional()
    .describe('time to wait before the start, such as 10m (default: none)'),
};

/** Translates `run_at` or `delay`. Throws if both are set. */
export function toDue({
  run_at: at,
  delay: inMs,
}: {
  readonly run_at?: string | undefined;
  readonly delay?: number | undefined;
}): { due?: { readonly at: Timestamp } | { readonly inMs: number } } {
  if (at !== undefined && inMs !== undefined) {
    const message = 'run_at and delay cannot be used together';
    throw new DuctileError('INPUT_INVALID', message, { place: 'delay' });
  }
  if (at !== undefined) return { due: { at } };
  return inMs === undefined ? {} : { due: { inMs } };
}
