import * as z from 'zod';
import { isObject } from '../base/json.ts';
import type { Operation } from './define.ts';

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
