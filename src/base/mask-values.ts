import { isObject, type Json } from './json.ts';

/** A value that is known, and what stands in its place wherever something is kept or shown. */
export interface KnownSecret {
  readonly value: string;
  readonly shown: string;
}

export interface ValueMask {
  text(text: string): string;
  /** The same where the text was cut off: what it ends with may be the beginning of a secret. */
  cutText(text: string): string;
  /** In texts and keys, however they were escaped; the same value when there is nothing to mask. */
  json(value: Json): Json;
}

/** Finds values as they are, and as programs write them: escaped, percent-encoded, base64, hexadecimal. */
export function makeValueMask(secrets: readonly KnownSecret[]): ValueMask {
  const shownOf = new Map<string, string>();
  for (const { value, shown } of secrets) {
    for (const form of formsOf(value)) if (!shownOf.has(form)) shownOf.set(form, shown);
  }
  const forms = [...shownOf.keys()].toSorted((a, b) => b.length - a.length);
  const pattern = new RegExp(forms.map(escapePattern).join('|'), 'g');
  const whole = new Map(secrets.map(({ value, shown }) => [value, shown]));
  const text = (given: string): string =>
    forms.length === 0 ? given : given.replaceAll(pattern, (found) => shownOf.get(found) ?? '');
  const json = (value: Json): Json => {
    if (typeof value === 'string') return text(value);
    if (typeof value === 'number') return whole.get(String(value)) ?? value;
    if (Array.isArray(value)) return keepSame(value, value.map(json));
    if (!isObject(value)) return value;
    const entries = Object.entries(value).map(([key, inner]) => [text(key), json(inner)] as const);
    const isSame = entries.every(([key, inner]) => Object.is(value[key], inner));
    return isSame ? value : Object.fromEntries(entries);
  };
  return { text, json, cutText: (given) => cutTail(text(given), shownOf) };
}

/** Shorter than this, a part of a value is found in too much that is none. */
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
    forms.add(percentEncode(plain)).add(percentEncode(plain).replaceAll('%20', '+'));
    for (const form of [...base64FormsOf(plain), ...hexFormsOf(plain)]) forms.add(form);
  }
  forms.delete('');
  return forms;
}

/** Well-formed here: what is kept was checked, and what is not cannot be encoded. */
function percentEncode(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

function toAscii(text: string): string {
  const code = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return text.replaceAll(/[\u0080-\uffff]/g, code);
}

/** Behind something else, as in `user:password`, it begins at one of three places of a group. */
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

/** The longest beginning of a secret that the text ends with. */
function cutTail(text: string, shownOf: ReadonlyMap<string, string>): string {
  let longest = 0;
  let shown = '';
  for (const [form, itsShown] of shownOf) {
    let length = form.length - 1;
    while (length > longest && !text.endsWith(form.slice(0, length))) length -= 1;
    if (length > longest) [longest, shown] = [length, itsShown];
  }
  return longest < PART_CHARS_MIN ? text : `${text.slice(0, -longest)}${shown}`;
}

function keepSame(before: Json[], after: Json[]): Json[] {
  return after.every((inner, index) => Object.is(inner, before[index])) ? before : after;
}

function escapePattern(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`);
}
