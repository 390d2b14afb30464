import { findUnsafe, isObject } from './json.ts';
import { limits } from './limits.ts';

export type ParsedJson =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly fault: string };

/**
 * JSON from a stranger. What other programs read differently, or what costs far more than its size
 * suggests, is refused: deep nesting, very many keys, a key twice in one object, whole numbers that
 * would be changed, and everything that a ledger cannot keep.
 */
export function parseStrictJson(text: string): ParsedJson {
  const scanned = scan(text);
  if (scanned.fault !== undefined) return { ok: false, fault: scanned.fault };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { ok: false, fault: 'is not JSON' };
  }
  const unsafe = findUnsafe(value, limits.jsonDepthMax);
  if (unsafe !== undefined) return { ok: false, fault: unsafe };
  // Each colon outside of a string belongs to one key; equal keys leave fewer in the value.
  if (countKeys(value) < scanned.keys) return { ok: false, fault: 'has a key twice in one object' };
  return { ok: true, value };
}

/** Whether a text has more levels than that, if it is JSON. */
export function isDeeper(text: string, levels: number): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else depth += levelOf(code);
    if (depth > levels) return true;
  }
  return false;
}

/** What a sign outside of a string does to the depth. */
function levelOf(code: number): number {
  if (code === 0x7b || code === 0x5b) return 1;
  return code === 0x7d || code === 0x5d ? -1 : 0;
}

interface Scan {
  readonly keys: number;
  readonly fault?: string;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
/** Any whole number of fewer digits is exact. */
const DIGITS_EXACT = 15;
/** From here on a number is written with an exponent, and nobody takes it for exact. */
const WRITTEN_IN_DIGITS_BELOW = 1e21;

/** Only looks at the outline, so that nothing is built of a text that will be refused. */
function scan(text: string): Scan {
  let depth = 0;
  let keys = 0;
  let elements = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === COLON) keys += 1;
    else if (code === COMMA) elements += 1;
    else if (isDigit(code)) {
      const end = endOfNumber(text, at);
      if (isChanged(text.slice(at, end))) {
        const place = placeOf(text, at).slice(0, PLACE_CHARS_MAX);
        return { keys, fault: `has a number at ${place} that is too large to stay exact` };
      }
      at = end - 1;
    } else depth += levelOf(code);
    if (depth > limits.jsonDepthMax) return { keys, fault: 'is nested too deeply' };
    if (keys > limits.jsonKeysMax) {
      return { keys, fault: `has more than ${limits.jsonKeysMax} keys` };
    }
    // A list of n elements has n - 1 commas.
    if (elements >= limits.jsonElementsMax) {
      return { keys, fault: `has more than ${limits.jsonElementsMax} elements` };
    }
  }
  return { keys };
}

const PLACE_CHARS_MAX = 100;

/** The path to what stands there, found only for what is refused. */
function placeOf(text: string, end: number): string {
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

function endOfString(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === BACKSLASH) at += 1;
    else if (code === QUOTE) return at;
  }
  return text.length;
}

function endOfNumber(text: string, from: number): number {
  let at = from;
  while (at < text.length && isInNumber(text.charCodeAt(at))) at += 1;
  return at;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

/** Digits, and what else may stand in a number: + - . E e */
function isInNumber(code: number): boolean {
  return isDigit(code) || code === 0x2b || code === 0x2d || code === 0x2e || (code | 0x20) === 0x65;
}

/** Also of what is written with a point or an exponent: we would write the digits. */
function isChanged(number: string): boolean {
  if (number.length <= DIGITS_EXACT && !/[eE]/.test(number)) return false;
  const value = Number(number);
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return false;
  return value < WRITTEN_IN_DIGITS_BELOW || /^\d+$/.test(number);
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
