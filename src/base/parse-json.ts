import { ExactNumber, isExactText, isShort } from './exact-number.ts';
// Not from limits.ts: the dashboard has this file, too, and needs none of the others.
import { dataLimits as limits } from './limits/data.ts';

/**
 * Parses JSON without changing a number: one that a double can't hold becomes an `ExactNumber`. Use it
 * for all text with data of users or plugins. Like JSON.parse it throws a SyntaxError.
 */
export function parseJson(text: string): unknown {
  return mayBeInexact(text) ? parseExactly(text) : JSON.parse(text);
}

/** Parses a text that may have such numbers outside of its strings. */
export function parseExactly(text: string): unknown {
  const value: unknown = JSON.parse(text);
  // Text that the service wrote comes out the same, unless a number was changed.
  return JSON.stringify(value) === text ? value : parseMarked(text, value);
}

/** `value` is what JSON.parse makes of the text. */
function parseMarked(text: string, value: unknown): unknown {
  // JSON.parse can name the source of each number, but calling a function for each of a million
  // values takes half a second. A string in the place of each such number is found again much faster.
  // Random, so that no string of the text can be mistaken for one of them.
  const marker = `${crypto.getRandomValues(new Uint32Array(4)).join('-')}:`;
  const numbers: ExactNumber[] = [];
  const parts: string[] = [];
  let copied = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === MINUS || isDigit(code)) {
      const end = endOfNumber(text, at);
      const number = text.slice(at, end);
      if (!isExactText(number)) {
        parts.push(text.slice(copied, at), `"${marker}${numbers.length}"`);
        numbers.push(toExact(number));
        copied = end;
      }
      at = end - 1;
    }
  }
  if (numbers.length === 0) return value;
  parts.push(text.slice(copied));
  const find = (inner: string): ExactNumber | undefined =>
    inner.startsWith(marker) ? numbers[Number(inner.slice(marker.length))] : undefined;
  return restore(JSON.parse(parts.join('')), find);
}

function toExact(number: string): ExactNumber {
  if (number.length <= limits.jsonNumberCharsMax) return new ExactNumber(number);
  throw new SyntaxError(`a number has more than ${limits.jsonNumberCharsMax} characters`);
}

/** Puts the numbers back in place; the value is fresh, so no other code sees it change. */
function restore(value: unknown, find: (text: string) => ExactNumber | undefined): unknown {
  if (typeof value === 'string') return find(value) ?? value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      const inner: unknown = value[index];
      if (typeof inner === 'string' || typeof inner === 'object')
        value[index] = restore(inner, find);
    }
    return value;
  }
  const fields = value as Record<string, unknown>;
  for (const key of Object.keys(fields)) {
    const inner = fields[key];
    if (typeof inner === 'string') {
      const number = find(inner);
      // A key called __proto__ is its own property here and must stay one.
      if (number !== undefined) Object.defineProperty(fields, key, { value: number, ...open });
    } else if (typeof inner === 'object') restore(inner, find);
  }
  return value;
}

const open = { configurable: true, enumerable: true, writable: true } as const;

/**
 * Looks at every third character: a number that a double can't hold has three digits in a row in its
 * exponent (1e400), or eight because it is long. So the usual text is scanned in a fraction of the
 * time that its parsing takes.
 */
function mayBeInexact(text: string): boolean {
  const { length } = text;
  for (let at = 2; at < length; at += 3) {
    let code = text.charCodeAt(at);
    if (code > 0x39 || code < 0x30) continue;
    let end = at + 1;
    while (end < length && isDigit(text.charCodeAt(end))) end += 1;
    let from = at;
    while (from > 0 && isDigit(text.charCodeAt(from - 1))) from -= 1;
    at = end;
    if (end - from < EXPONENT_DIGITS) continue;
    if (end - from < LONG_DIGITS) {
      code = text.charCodeAt(from - 1);
      if (code === PLUS || code === MINUS) code = text.charCodeAt(from - 2);
      if ((code | 0x20) !== SMALL_E) continue;
    }
    if (isLongNumber(text, from, end)) return true;
  }
  return false;
}

/** Digits in a row that an exponent needs to leave the range of doubles. */
const EXPONENT_DIGITS = 3;
/** Sixteen digits have a point in their middle at worst. */
const LONG_DIGITS = 8;

/** Whether the number around some of its digits is one that need not be exact. */
function isLongNumber(text: string, from: number, end: number): boolean {
  let start = from;
  while (start > 0 && isInNumber(text.charCodeAt(start - 1))) start -= 1;
  const stop = endOfNumber(text, end);
  // In a string, other characters are usually around it.
  if (!isAround(text.charCodeAt(start - 1)) || !isAround(text.charCodeAt(stop))) return false;
  return !isShort(text.slice(start, stop));
}

/** Blanks, comma, colon, brackets, and the ends of the text, which are NaN. */
function isAround(code: number): boolean {
  if (code === 0x2c || code === 0x3a || code <= 0x20) return true;
  return code === 0x5b || code === 0x5d || code === 0x7d || Number.isNaN(code);
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const PLUS = 0x2b;
const MINUS = 0x2d;
const SMALL_E = 0x65;

/** The index of the closing quote of the string that begins at `from`, or the end of the text. */
export function endOfString(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === BACKSLASH) at += 1;
    else if (code === QUOTE) return at;
  }
  return text.length;
}

export function endOfNumber(text: string, from: number): number {
  let at = from;
  while (at < text.length && isInNumber(text.charCodeAt(at))) at += 1;
  return at;
}

export function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

/** Digits and + - . E e */
function isInNumber(code: number): boolean {
  return (
    isDigit(code) || code === 0x2b || code === MINUS || code === 0x2e || (code | 0x20) === 0x65
  );
}
