import * as z from 'zod';
import { isObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { formatDuration, parseDuration } from './duration.ts';

/**
 * A map with exactly these keys. A key without a value (`service:` and nothing after it) counts as
 * absent, because that is what people mean when they comment out the lines below it.
 */
export function section<Shape extends z.ZodRawShape>(shape: Shape) {
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

/** Text that is not blank. */
export function text() {
  return z.string().regex(/\S/);
}

export interface DurationBounds {
  readonly minMs?: number;
  readonly maxMs?: number;
}

/** A duration in milliseconds. */
export function duration({ minMs = 1, maxMs = Number.MAX_SAFE_INTEGER }: DurationBounds = {}) {
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
  return z.preprocess(fromNumber, toMs);
}

/** A duration that a timer waits for. */
export function timer(minMs = 1) {
  return duration({ minMs, maxMs: limits.timerMsMax });
}

/** What a plugin may be called: it stands in paths, URLs and tables. */
export const pluginNamePattern = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
export const commandNamePattern = /^[A-Za-z][A-Za-z0-9_-]{0,127}$/;

export function pluginName() {
  return z.string().regex(pluginNamePattern, PLUGIN_NAME_RULE);
}

export function commandName() {
  return z.string().regex(commandNamePattern, COMMAND_NAME_RULE);
}

const PLUGIN_NAME_RULE = 'must be letters, digits, _, - and dots, and start with a letter or digit';
const COMMAND_NAME_RULE = 'must be letters, digits, _ and -, and start with a letter';

function dropEmpty(value: unknown, shape: z.ZodRawShape): unknown {
  if (value === null) return {};
  if (!isObject(value)) return value;
  const filled = Object.entries(value).filter(
    ([key, inner]) => inner !== null || !Object.hasOwn(shape, key),
  );
  return Object.fromEntries(filled);
}
