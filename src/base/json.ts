import { ExactNumber, parseJson } from './parse-json.ts';
import { DuctileError } from './errors.ts';
import { limits } from './limits.ts';

export type Json =
  | null
  | boolean
  | number
  | string
  /** A number that a double can't hold: a scalar like the others, whatever `typeof` says. */
  | ExactNumber
  | Json[]
  | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export function isObject(value: unknown): value is JsonObject {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof ExactNumber)
  );
}

/** Stored text as the value it stands for; what a plugin printed may be no JSON at all. */
export function parseStoredJson(text: string | null): Json {
  if (text === null) return null;
  try {
    return parseJson(text) as Json;
  } catch {
    return text;
  }
}

/**
 * Why a value cannot be kept in a ledger, or undefined when it can. Both databases must agree on
 * what they accept, so what one of them cannot store (U+0000) is refused for both.
 */
export function describeUnsafeJson(value: unknown, depthMax: number): string | undefined {
  const fault = visit(value, depthMax);
  return fault === undefined ? undefined : `$${fault.path} ${fault.reason}`;
}

/** The path is put together on the way back, because nearly every value has nothing to tell. */
interface Fault {
  readonly path: string;
  readonly reason: string;
}

function visit(value: unknown, depthLeft: number): Fault | undefined {
  if (typeof value === 'string') return visitText(value);
  if (typeof value === 'number') {
    return Number.isFinite(value) ? undefined : { path: '', reason: 'is not a finite number' };
  }
  if (typeof value !== 'object' || value === null || value instanceof ExactNumber) return undefined;
  if (depthLeft < 0) return { path: '', reason: 'is nested too deeply' };
  return Array.isArray(value) ? visitList(value, depthLeft) : visitObject(value, depthLeft);
}

/** By index: an array of pairs for a million elements takes seconds to build and to collect. */
function visitList(list: readonly unknown[], depthLeft: number): Fault | undefined {
  for (let index = 0; index < list.length; index += 1) {
    const fault = visit(list[index], depthLeft - 1);
    if (fault !== undefined) return { path: `.${index}${fault.path}`, reason: fault.reason };
  }
  return undefined;
}

function visitObject(value: object, depthLeft: number): Fault | undefined {
  for (const key of Object.keys(value)) {
    if (key === '__proto__') return { path: '', reason: 'has the key __proto__' };
    const inner = (value as Readonly<Record<string, unknown>>)[key];
    const fault = visitText(key) ?? visit(inner, depthLeft - 1);
    if (fault !== undefined) return { path: `.${key}${fault.path}`, reason: fault.reason };
  }
  return undefined;
}

function visitText(text: string): Fault | undefined {
  if (text.includes('\u0000')) return { path: '', reason: 'contains the character U+0000' };
  if (text.isWellFormed()) return undefined;
  return { path: '', reason: 'contains an unpaired surrogate' };
}

/** A copy with another value for each `ExactNumber`; the same value when there is none. */
export function replaceExact(value: unknown, replace: (number: ExactNumber) => unknown): unknown {
  return hasExact(value) ? replaceIn(value, replace) : value;
}

/** Whether a value has a number that a double can't hold. */
export function hasExact(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (value instanceof ExactNumber) return true;
  return Array.isArray(value) ? value.some(hasExact) : Object.values(value).some(hasExact);
}

function replaceIn(value: unknown, replace: (number: ExactNumber) => unknown): unknown {
  if (value instanceof ExactNumber) return replace(value);
  if (Array.isArray(value)) return value.map((inner) => replaceIn(inner, replace));
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, replaceIn(inner, replace)]);
  return Object.fromEntries(entries) as unknown;
}

/** JSON in which the order of keys says nothing. */
export function toCanonicalJson(value: unknown): string {
  return JSON.stringify(sortKeys(value));
}

/** A copy whose objects have their keys in order; what `toJSON` makes of a value is left to JSON. */
function sortKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return value;
  if (Array.isArray(value)) return value.map(sortKeys);
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sortKeys(inner)]));
}

/** Converts a value of a caller to the JSON text that the ledger stores. Throws if it can't be stored. */
export function toStoredJson(
  value: unknown,
  field: string,
  bytesMax: number = limits.payloadBytesMax,
): string {
  const unsafe = describeUnsafeJson(value, limits.jsonDepthMax);
  if (unsafe !== undefined) {
    throw new DuctileError('INPUT_INVALID', `${field}: ${unsafe}`, { place: field });
  }
  const text = JSON.stringify(value);
  if (Buffer.byteLength(text) <= bytesMax) return text;
  const message = `the ${field} is larger than ${bytesMax} bytes`;
  throw new DuctileError('PAYLOAD_TOO_LARGE', message, { place: field });
}
