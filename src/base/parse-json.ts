import { dataLimits as limits } from './limits/data.ts';

// Not from limits.ts: the dashboard bundles this file and needs no other limits.

/**
 * Parses JSON without changing a number: one that a double can't hold becomes an `ExactNumber`. Use it
 * for all text with data of users or plugins. Like JSON.parse it throws a SyntaxError.
 */
export function parseJson(text: string): unknown {
  return mayBeInexact(text) ? parseExactly(text) : JSON.parse(text);
}

/** Parses a text that may have numbers outside its strings that a double can't hold. */
export function parseExactly(text: string): unknown {
  const value: unknown = JSON.parse(text);
  // Text that the service wrote comes out the same, unless a number was changed.
  return JSON.stringify(value) === text ? value : parseMarked(text, value);
}

/** Parses with a marker string in place of each such number. `value` is the result of JSON.parse. */
function parseMarked(text: string, value: unknown): unknown {
  // A reviver of JSON.parse gets the source of each number, but calling a function for a million values
  // takes half a second. Finding the marker strings is much faster.
  // The marker is random, so that no string of the text can be mistaken for one.
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

/** Puts the numbers back in place. It changes the value, which no other code has seen yet. */
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
 * Checks every third character. A number that a double can't hold has three digits in a row in its
 * exponent (1e400), or eight because it is long. So the scan takes a fraction of the time of parsing.
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

/** The digits in a row of an exponent outside the range of doubles. */
const EXPONENT_DIGITS = 3;
/** The digits in a row of a number with 16 digits, if the decimal point is in its middle. */
const LONG_DIGITS = 8;

/** Checks whether the number around these digits is too long to be exact in any case. */
function isLongNumber(text: string, from: number, end: number): boolean {
  let start = from;
  while (start > 0 && isInNumber(text.charCodeAt(start - 1))) start -= 1;
  const stop = endOfNumber(text, end);
  // Digits inside a string usually have other characters around them.
  if (!isAround(text.charCodeAt(start - 1)) || !isAround(text.charCodeAt(stop))) return false;
  return !isShortNumber(text.slice(start, stop));
}

/** Checks for blanks, comma, colon, brackets, and the ends of the text, whose code is NaN. */
function isAround(code: number): boolean {
  if (code === 0x2c || code === 0x3a || code <= 0x20) return true;
  return code === 0x5b || code === 0x5d || code === 0x7d || Number.isNaN(code);
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const PLUS = 0x2b;
const MINUS = 0x2d;
const SMALL_E = 0x65;

/** Returns the index of the closing quote of the string that starts at `from`, or the end of the text. */
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

/**
 * A number that a double can't hold, kept as it was written: 12345678901234567890, 1e400 or
 * 0.1234567890123456789. `JSON.stringify` writes it unchanged. Every other number is an ordinary one.
 */
export class ExactNumber {
  readonly text: string;

  /** `text` is a number in JSON. */
  constructor(text: string) {
    this.text = text;
  }

  toJSON(): unknown {
    return rawJson(this.text);
  }

  toString(): string {
    return this.text;
  }
}

/** TypeScript doesn't declare JSON.rawJSON yet. A browser without it shows the number as a string. */
const { rawJSON: rawJson = String } = JSON as { readonly rawJSON?: (text: string) => unknown };

const NUMBER = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

export function isNumberText(text: string): boolean {
  return NUMBER.test(text);
}

/** Checks whether a number is exact as a double because it has at most 15 characters and no exponent. */
export function isShortNumber(text: string): boolean {
  return text.length <= DIGITS_EXACT && !text.includes('e') && !text.includes('E');
}

const DIGITS_EXACT = 15;

/** Checks whether a double holds a number in JSON without changing its value. */
export function isExactText(text: string): boolean {
  if (isShortNumber(text)) return true;
  const value = Number(text);
  const written = String(value);
  if (written === text) return true;
  return Number.isFinite(value) && compareDecimals(toDecimal(text), toDecimal(written)) === 0;
}

/** Returns less than zero if `a` is smaller, zero if they are equal. Exact for all numbers. */
export function compareNumbers(a: number | ExactNumber, b: number | ExactNumber): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return compareDecimals(toDecimal(String(a)), toDecimal(String(b)));
}

/** Returns the number as an integer; undefined if it isn't one or has a very large exponent. */
export function toBigInt({ text }: ExactNumber): bigint | undefined {
  const { sign, digits, exponent } = toDecimal(text);
  if (exponent < 0n || exponent > BigInt(EXPONENT_MAX)) return undefined;
  return BigInt(digits + '0'.repeat(Number(exponent))) * BigInt(sign);
}

/** The largest power of ten that becomes a BigInt. */
const EXPONENT_MAX = 400;

/** `sign` × 0.`digits` × 10^(`digits.length` + `exponent`), without zeros around the digits. */
interface Decimal {
  readonly sign: -1 | 0 | 1;
  readonly digits: string;
  readonly exponent: bigint;
}

function toDecimal(text: string): Decimal {
  const [, minus = '', whole = '', fraction = '', power = '0'] = NUMBER.exec(text) ?? [];
  const written = `${whole}${fraction}`;
  let from = 0;
  while (written[from] === '0') from += 1;
  let to = written.length;
  while (to > from && written[to - 1] === '0') to -= 1;
  if (from === to) return { sign: 0, digits: '', exponent: 0n };
  const exponent = BigInt(power) - BigInt(fraction.length) + BigInt(written.length - to);
  return { sign: minus === '' ? 1 : -1, digits: written.slice(from, to), exponent };
}

function compareDecimals(a: Decimal, b: Decimal): number {
  if (a.sign !== b.sign) return a.sign - b.sign;
  const size = a.exponent + BigInt(a.digits.length) - b.exponent - BigInt(b.digits.length);
  if (size !== 0n) return size > 0n ? a.sign : -a.sign;
  if (a.digits === b.digits) return 0;
  // Both start at the same power of ten, so their digits are ordered like words.
  return a.digits > b.digits ? a.sign : -a.sign;
}
