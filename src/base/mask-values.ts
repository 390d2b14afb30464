import { ExactNumber } from './parse-json.ts';
import { isObject, type Json } from './json.ts';

/** A secret value, and the text that replaces it wherever something is stored or shown. */
export interface KnownSecret {
  readonly value: string;
  readonly shown: string;
}

export interface ValueMask {
  text(text: string): string;
  /** Masks a text that was cut off: it may end with the beginning of a secret. */
  cutText(text: string): string;
  /** Masks texts and keys. Returns the same value if there is nothing to mask. */
  json(value: Json): Json;
}

/**
 * Masks secrets as they are, and as programs encode them: JSON escapes, also nested, any
 * percent-encoding, base64 and hexadecimal.
 */
export function makeValueMask(secrets: readonly KnownSecret[]): ValueMask {
  const shownOf = new Map<string, string>();
  for (const { value, shown } of secrets) {
    for (const form of formsOf(value)) if (!shownOf.has(form)) shownOf.set(form, shown);
  }
  const forms = [...shownOf.keys()].toSorted((a, b) => b.length - a.length);
  const pattern = new RegExp(forms.map(escapePattern).join('|'), 'g');
  const whole = new Map(secrets.map(({ value, shown }) => [value, shown]));
  const escaped = secrets.flatMap(({ value, shown }) => {
    const found = escapedPattern(value);
    return found === undefined ? [] : [{ found, shown }];
  });
  const text = (given: string): string => {
    if (forms.length === 0) return given;
    let masked = given.replaceAll(pattern, (found) => shownOf.get(found) ?? '');
    if (escaped.length === 0 || !/[\\%&]/.test(masked)) return masked;
    for (const { found, shown } of escaped) masked = masked.replaceAll(found, () => shown);
    return masked;
  };
  const json = (value: Json): Json => {
    if (typeof value === 'string') return text(value);
    if (typeof value === 'number' || value instanceof ExactNumber) {
      return whole.get(String(value)) ?? value;
    }
    if (Array.isArray(value)) return keepSame(value, value.map(json));
    if (!isObject(value)) return value;
    const entries = Object.entries(value).map(([key, inner]) => [text(key), json(inner)] as const);
    const isSame = entries.every(([key, inner]) => Object.is(value[key], inner));
    return isSame ? value : Object.fromEntries(entries);
  };
  return { text, json, cutText: (given) => cutTail(text(given), shownOf) };
}

/** Shorter parts of a value would match too much text that isn't a secret. */
const PART_CHARS_MIN = 4;
const LINE_CHARS_MIN = 16;
const BASE64_CHARS_MIN = 8;
const HEX_CHARS_MIN = 8;

function formsOf(value: string): Set<string> {
  const lines = value.split(/\r?\n/);
  const parts = lines.length === 1 ? [] : lines.filter((line) => line.length >= LINE_CHARS_MIN);
  const forms = new Set([value, ...parts]);
  for (const plain of [value, ...parts]) {
    const escaped = JSON.stringify(plain).slice(1, -1);
    forms.add(escaped).add(escaped.replaceAll('/', '\\/')).add(toAscii(escaped));
    forms.add(JSON.stringify(escaped).slice(1, -1));
    for (const form of percentFormsOf(plain)) forms.add(form);
    for (const form of [...base64FormsOf(plain), ...hexFormsOf(plain)]) forms.add(form);
  }
  forms.delete('');
  return forms;
}

/** Programs differ in the characters they don't encode (`!'()*~`), in the case of digits and in blanks. */
function percentFormsOf(text: string): string[] {
  // Stored text is always well-formed, and other text can't be encoded.
  const usual = encodeURIComponent(text.toWellFormed());
  const strict = usual.replaceAll(/[!'()*~]/g, percentOf);
  const upper = [usual, strict, strict.replaceAll('%7E', '~')];
  return [
    ...upper,
    ...upper.map((form) => form.replaceAll(/%../g, (code) => code.toLowerCase())),
  ].flatMap((form) => [form, form.replaceAll('%20', '+')]);
}

function percentOf(char: string): string {
  return [...Buffer.from(char)]
    .map((byte) => `%${byte.toString(16).padStart(2, '0')}`)
    .join('')
    .toUpperCase();
}

/** Longer values are files with several lines, and each line is masked by itself. */
const ESCAPED_CHARS_MAX = 1024;

/**
 * Returns a pattern for the value with each special character escaped in any way, or not at all: `%21`,
 * `%2521`, `\\"` for JSON in JSON, `\\u0021`, `&amp;`. Undefined if there is nothing to escape.
 */
function escapedPattern(value: string): RegExp | undefined {
  if (value.length < PART_CHARS_MIN || value.length > ESCAPED_CHARS_MAX) return undefined;
  if (/^\w+$/.test(value)) return undefined;
  // A run of backslashes is one part; as single parts the pattern could split a run in many ways.
  const parts = value.toWellFormed().match(/\\+|[^\\]/gu) ?? [];
  return new RegExp(parts.map(toEscapes).join(''), 'g');
}

/** Four levels of escaping: each one doubles the backslashes. */
const BACKSLASHES_MAX = 16;

const entities: Readonly<Record<string, string>> = {
  '&': '|amp',
  '<': '|lt',
  '>': '|gt',
  '"': '|quot',
  "'": '|apos',
};
const controls: Readonly<Record<string, string>> = { '\n': 'n', '\r': 'r', '\t': 't' };

function toEscapes(part: string): string {
  if (/^\w$/.test(part)) return part;
  const some = `\\\\{1,${BACKSLASHES_MAX}}`;
  const bytes = Array.from(Buffer.from(part), (byte) => `%(?:25){0,3}${toHex(byte, 2)}`);
  if (part.startsWith('\\')) {
    const run = `\\\\{${part.length},${part.length * BACKSLASHES_MAX}}`;
    return `(?:${run}|${bytes.join('')})`;
  }
  const units = Array.from({ length: part.length }, (_, at) => part.charCodeAt(at));
  const code = part.codePointAt(0) ?? 0;
  const control = controls[part];
  const entity = `#0{0,4}${code}|#[xX]0{0,4}${toHex(code, 1)}${entities[part] ?? ''}`;
  // The longest form first: an escape may start with the character itself.
  return `(?:${[
    ...(control === undefined ? [] : [`${some}${control}`]),
    ...(part === ' ' ? [String.raw`\+`] : []),
    `&(?:amp;){0,3}(?:${entity});`,
    bytes.join(''),
    units.map((unit) => `${some}u${toHex(unit, 4)}`).join(''),
    `\\\\{0,${BACKSLASHES_MAX}}${escapePattern(part)}`,
  ].join('|')})`;
}

/** Returns a pattern for hexadecimal digits in either case. */
function toHex(value: number, digits: number): string {
  const hex = value.toString(16).padStart(digits, '0');
  return hex.replaceAll(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
}

function toAscii(text: string): string {
  const code = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return text.replaceAll(/[\u0080-\uffff]/g, code);
}

/** Base64 encodes groups of three bytes; after other text, as in `user:password`, a value starts anywhere in one. */
function base64FormsOf(text: string): string[] {
  const bytes = Buffer.from(text);
  const forms = [0, 1, 2].map((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    const from = Math.ceil((before * 4) / 3);
    return encoded.slice(from, Math.floor(((before + bytes.length) * 4) / 3));
  });
  return forms
    .filter((form) => form.length >= BASE64_CHARS_MIN)
    .flatMap((form) => [form, form.replaceAll('+', '-').replaceAll('/', '_')]);
}

function hexFormsOf(text: string): string[] {
  const hex = Buffer.from(text).toString('hex');
  return hex.length >= HEX_CHARS_MIN ? [hex, hex.toUpperCase()] : [];
}

/** Masks the longest beginning of a secret at the end of the text. */
function cutTail(text: string, shownOf: ReadonlyMap<string, string>): string {
  let longest = 0;
  let shown = '';
  for (const [form, replacement] of shownOf) {
    let length = form.length - 1;
    while (length > longest && !text.endsWith(form.slice(0, length))) length -= 1;
    if (length > longest) [longest, shown] = [length, replacement];
  }
  return longest < PART_CHARS_MIN ? text : `${text.slice(0, -longest)}${shown}`;
}

function keepSame(before: Json[], after: Json[]): Json[] {
  return after.every((inner, index) => Object.is(inner, before[index])) ? before : after;
}

function escapePattern(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`);
}
