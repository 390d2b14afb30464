import {
  endOfNumber,
  endOfString,
  ExactNumber,
  isDigit,
  isShortNumber,
  parseExactly,
  parseJson,
} from './parse-json.ts';
import { DuctileError } from './errors.ts';
import { limits } from './limits.ts';

export type Json =
  | null
  | boolean
  | number
  | string
  /** A number that a double can't hold; a scalar like the others, although `typeof` is object. */
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

/** Parses stored text. Text that isn't JSON is returned as a string: a plugin may print anything. */
export function parseStoredJson(text: string | null): Json {
  if (text === null) return null;
  try {
    return parseJson(text) as Json;
  } catch {
    return text;
  }
}

/**
 * Describes why a ledger can't store a value; undefined if it can. Both databases must accept the same
 * values, so U+0000, which PostgreSQL can't store, is refused for both.
 */
export function describeUnsafeJson(value: unknown, depthMax: number): string | undefined {
  const fault = visit(value, depthMax);
  return fault === undefined ? undefined : `$${fault.path} ${fault.reason}`;
}

/** A fault with its path, which is built on the way back because nearly every value has none. */
interface JsonFault {
  readonly path: string;
  readonly reason: string;
}

function visit(value: unknown, depthLeft: number): JsonFault | undefined {
  if (typeof value === 'string') return visitText(value);
  if (typeof value === 'number') {
    return Number.isFinite(value) ? undefined : { path: '', reason: 'is not a finite number' };
  }
  if (typeof value !== 'object' || value === null || value instanceof ExactNumber) return undefined;
  if (depthLeft < 0) return { path: '', reason: 'is nested too deeply' };
  return Array.isArray(value) ? visitList(value, depthLeft) : visitObject(value, depthLeft);
}

/** Loops by index: `entries()` of a million elements takes seconds to build and to collect. */
function visitList(list: readonly unknown[], depthLeft: number): JsonFault | undefined {
  for (let index = 0; index < list.length; index += 1) {
    const fault = visit(list[index], depthLeft - 1);
    if (fault !== undefined) return { path: `.${index}${fault.path}`, reason: fault.reason };
  }
  return undefined;
}

function visitObject(value: object, depthLeft: number): JsonFault | undefined {
  for (const key of Object.keys(value)) {
    if (key === '__proto__') return { path: '', reason: 'has the key __proto__' };
    const inner = (value as Readonly<Record<string, unknown>>)[key];
    const fault = visitText(key) ?? visit(inner, depthLeft - 1);
    if (fault !== undefined) return { path: `.${key}${fault.path}`, reason: fault.reason };
  }
  return undefined;
}

function visitText(text: string): JsonFault | undefined {
  if (text.includes('\u0000')) return { path: '', reason: 'contains the character U+0000' };
  if (text.isWellFormed()) return undefined;
  return { path: '', reason: 'contains an unpaired surrogate' };
}

/** Copies a value with a replacement for each `ExactNumber`; returns the same value if it has none. */
export function replaceExact(value: unknown, replace: (number: ExactNumber) => unknown): unknown {
  return hasExact(value) ? replaceIn(value, replace) : value;
}

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

/** Returns JSON with sorted keys, so that equal values have equal text. */
export function toCanonicalJson(value: unknown): string {
  return JSON.stringify(sortKeys(value));
}

/** Copies a value with sorted keys. Values with a `toJSON` are left to JSON. */
function sortKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return value;
  if (Array.isArray(value)) return value.map(sortKeys);
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sortKeys(inner)]));
}

/** Converts a value of a caller to the JSON text that the ledger stores. Throws if the ledger can't. */
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

type ParsedJson =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly fault: string };

/**
 * Parses JSON from an untrusted sender, and keeps numbers exactly. It refuses deep nesting, very many keys
 * or elements, and very long numbers, which cost far more than their size suggests. It refuses a key twice
 * in one object, which programs read differently, and values that a ledger can't store.
 */
export function parseStrictJson(text: string): ParsedJson {
  const scanned = scanOutline(text);
  if (scanned.fault !== undefined) return { ok: false, fault: scanned.fault };
  let value: unknown;
  try {
    value = scanned.mayBeInexact ? parseExactly(text) : JSON.parse(text);
  } catch {
    return { ok: false, fault: 'is not JSON' };
  }
  const unsafe = describeUnsafeJson(value, limits.jsonDepthMax);
  if (unsafe !== undefined) return { ok: false, fault: unsafe };
  // Each colon outside a string belongs to one key. The value has fewer keys if some are equal.
  if (countKeys(value) < scanned.keys) return { ok: false, fault: 'has a key twice in one object' };
  return { ok: true, value };
}

/** Checks whether a JSON text has more levels of nesting. */
export function isDeeperThan(text: string, levels: number): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else depth += levelOf(code);
    if (depth > levels) return true;
  }
  return false;
}

/** Returns the change of depth at a character outside a string. */
function levelOf(code: number): number {
  if (code === 0x7b || code === 0x5b) return 1;
  return code === 0x7d || code === 0x5d ? -1 : 0;
}

interface JsonOutline {
  readonly keys: number;
  /** True if the text has a number that JSON.parse could change. */
  readonly mayBeInexact: boolean;
  readonly fault?: string;
}

const QUOTE = 0x22;
const MINUS = 0x2d;
const COLON = 0x3a;
const COMMA = 0x2c;

/** Scans the outline, so that no value is built from a text that is refused. */
function scanOutline(text: string): JsonOutline {
  let depth = 0;
  let keys = 0;
  let elements = 0;
  let mayBeInexact = false;
  const refuse = (fault: string): JsonOutline => ({ keys, mayBeInexact, fault });
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === COLON) keys += 1;
    else if (code === COMMA) elements += 1;
    else if (code === MINUS || isDigit(code)) {
      const end = endOfNumber(text, at);
      if (end - at > limits.jsonNumberCharsMax) {
        const path = findPath(text, at).slice(0, PATH_CHARS_MAX);
        return refuse(`has a number at ${path} with too many characters`);
      }
      mayBeInexact ||= !isShortNumber(text.slice(at, end));
      at = end - 1;
    } else depth += levelOf(code);
    if (depth > limits.jsonDepthMax) return refuse('is nested too deeply');
    if (keys > limits.jsonKeysMax) return refuse(`has more than ${limits.jsonKeysMax} keys`);
    // A list of n elements has n - 1 commas.
    if (elements >= limits.jsonElementsMax) {
      return refuse(`has more than ${limits.jsonElementsMax} elements`);
    }
  }
  return { keys, mayBeInexact };
}

const PATH_CHARS_MAX = 100;

/** Finds the path of the value at an index, for the message of a refusal. */
function findPath(text: string, end: number): string {
  const steps: (string | number)[] = [];
  let name = '';
  for (let at = 0; at < end; at += 1) {
    const code = text.charCodeAt(at);
    const step = steps.at(-1);
    if (code === QUOTE) {
      const from = at + 1;
      at = endOfString(text, at);
      name = text.slice(from, at);
    } else if (levelOf(code) > 0) steps.push(0);
    else if (levelOf(code) < 0) steps.pop();
    else if (code === COLON && step !== undefined) steps.splice(-1, 1, name);
    else if (code === COMMA && typeof step === 'number') steps.splice(-1, 1, step + 1);
  }
  return ['$', ...steps].join('.');
}

function countKeys(value: unknown): number {
  let count = 0;
  if (Array.isArray(value)) {
    for (const inner of value) if (typeof inner === 'object') count += countKeys(inner);
  } else if (isObject(value)) {
    const values = Object.values(value);
    count = values.length;
    for (const inner of values) if (typeof inner === 'object') count += countKeys(inner);
  }
  return count;
}

/** Freezes a tree of plain data, so that snapshots can't change. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const { value: inner } of Object.values(Object.getOwnPropertyDescriptors(value))) {
    deepFreeze(inner);
  }
  return value;
}

/** Makes a record without a prototype, so that names such as `constructor` find nothing. */
export function makeRecord<T>(entries: Iterable<readonly [string, T]>): Record<string, T> {
  const record = Object.create(null) as Record<string, T>;
  for (const [key, value] of entries) record[key] = value;
  return record;
}

/** Leaves out members that are undefined, for types whose optional members must not be undefined. */
export function compact<T extends object>(members: T): CompactObject<T> {
  // A loop, because jobs and deliveries pass here: lists of entries take three times as long.
  const set: Record<string, unknown> = {};
  for (const key in members) if (members[key] !== undefined) set[key] = members[key];
  return set as CompactObject<T>;
}

type CompactObject<T> = {
  [Key in keyof T as undefined extends T[Key] ? never : Key]: T[Key];
} & { [Key in keyof T as undefined extends T[Key] ? Key : never]?: Exclude<T[Key], undefined> };
