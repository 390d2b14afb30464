import { isObject, type Json, type JsonObject } from '../../base/json.ts';
import { PipelineFault } from '../run/halt.ts';

/** The values that conditions and templates can use. */
export interface Scope {
  readonly payload: JsonObject;
  /** The baggage of the run. */
  readonly context: JsonObject;
  /** The signal that a `wait` examines. */
  readonly signal?: Json;
}

/** A root and the keys below it, such as `payload.photo.name`. */
export type ValuePath = readonly string[];

export const scopeRoots = ['payload', 'context', 'signal'] as const;
export type ScopeRoot = (typeof scopeRoots)[number];

/** Returns the words of a path, or its fault. */
export function parsePath(
  text: string,
  allowed: readonly ScopeRoot[],
): ValuePath | { fault: string } {
  const words = text.split('.');
  const [root] = words;
  if (!allowed.some((known) => known === root)) {
    return { fault: `must begin with ${allowed.join('. or ')}.` };
  }
  if (words.some((word) => word.trim() === '')) return { fault: 'has an empty part' };
  return words;
}

export function formatPath(path: ValuePath): string {
  return path.join('.');
}

/**
 * Returns undefined if there is no value. A number is an index of a list. `photos[0]` is the first
 * of `photos`, unless a key has exactly that name.
 */
export function findValue(path: ValuePath, scope: Scope): Json | undefined {
  const [root, ...words] = path;
  let value: Json | undefined;
  if (root === 'payload') value = scope.payload;
  else if (root === 'context') value = scope.context;
  else value = scope.signal;
  for (const word of words) value = below(value, word);
  return value;
}

const INDEX = /^(?:0|[1-9]\d{0,8})$/;

function below(value: Json | undefined, word: string): Json | undefined {
  if (isObject(value) && Object.hasOwn(value, word)) return value[word];
  if (Array.isArray(value) && INDEX.test(word)) return value[Number(word)];
  const [, list, index] = /^(.+)\[(\d{1,9})\]$/.exec(word) ?? [];
  if (list === undefined || index === undefined) return undefined;
  return below(below(value, list), index);
}

/** Removes trailing indexes, such as `[0]` from `photos[0]`. */
export function stripIndexes(word: string): string {
  return word.replace(/(?:\[\d+\])+$/, '');
}

/** A value with placeholders, as plain JSON. */
export type Template =
  | { readonly value: Json }
  /** A whole value with its type. */
  | { readonly ref: ValuePath }
  /** Text with embedded values. */
  | { readonly text: readonly (string | { readonly ref: ValuePath })[] }
  | { readonly list: readonly Template[] }
  | { readonly map: Readonly<Record<string, Template>> };

export function renderTemplate(template: Template, scope: Scope): Json {
  if ('value' in template) return template.value;
  if ('ref' in template) return requireValue(template.ref, scope);
  if ('text' in template) {
    return template.text
      .map((part) => (typeof part === 'string' ? part : textOf(requireValue(part.ref, scope))))
      .join('');
  }
  if ('list' in template) return template.list.map((item) => renderTemplate(item, scope));
  return Object.fromEntries(
    Object.entries(template.map).map(([key, inner]) => [key, renderTemplate(inner, scope)]),
  );
}

function requireValue(path: ValuePath, scope: Scope): Json {
  const value = findValue(path, scope);
  if (value === undefined) throw new PipelineFault(`there is no ${describeMissing(path, scope)}`);
  return value;
}

/** Names the path and the keys of the value above it, so that a typo is easy to see. */
function describeMissing(path: ValuePath, scope: Scope): string {
  const above = path.slice(0, -1);
  const value = above.length === 0 ? undefined : findValue(above, scope);
  if (!isObject(value)) return formatPath(path);
  const keys = Object.keys(value).map((key) => key.slice(0, KEY_CHARS_SHOWN));
  const shown = keys.slice(0, KEYS_SHOWN).join(', ') || 'no members';
  const more = keys.length > KEYS_SHOWN ? ` and ${keys.length - KEYS_SHOWN} more` : '';
  return `${formatPath(path)}; ${formatPath(above)} has ${shown}${more}`;
}

const KEYS_SHOWN = 20;
const KEY_CHARS_SHOWN = 60;

function textOf(value: Json): string {
  if (value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export interface TemplateFault {
  /** Keys and indexes below the template. */
  readonly at: readonly (string | number)[];
  readonly message: string;
}

type ParsedTemplate =
  | { readonly ok: true; readonly template: Template }
  | { readonly ok: false; readonly faults: readonly TemplateFault[] };

/** Parses `{payload.a}` in text at any depth. `{{` and `}}` are literal braces. */
export function parseTemplate(value: Json, allowed: readonly ScopeRoot[]): ParsedTemplate {
  const faults: TemplateFault[] = [];
  const template = parse(value, [], allowed, faults);
  return faults.length === 0 ? { ok: true, template } : { ok: false, faults };
}

/** Also accepts a path without braces, for fields in which only a reference makes sense. */
export function parseReference(value: Json, allowed: readonly ScopeRoot[]): ParsedTemplate {
  const isBare = typeof value === 'string' && /^(payload|context)\.[^{}\s]+$/.test(value);
  return parseTemplate(isBare ? `{${value}}` : value, allowed);
}

/** Lists every path that a template reads. */
export function listTemplatePaths(template: Template): ValuePath[] {
  if ('value' in template) return [];
  if ('ref' in template) return [template.ref];
  if ('text' in template) {
    return template.text.flatMap((part) => (typeof part === 'string' ? [] : [part.ref]));
  }
  return ('list' in template ? template.list : Object.values(template.map)).flatMap(
    listTemplatePaths,
  );
}

/** Text that was probably meant as a reference, and how to write that reference. */
interface Lookalike {
  readonly written: string;
  readonly reference: string;
}

/** Finds references in double braces, as other template languages write them, and bare paths. */
export function listLookalikes(template: Template): Lookalike[] {
  if ('value' in template) return inPlain(template.value);
  if ('ref' in template) return [];
  if ('text' in template) {
    return template.text.flatMap((part) => (typeof part === 'string' ? inBraces(part) : []));
  }
  return ('list' in template ? template.list : Object.values(template.map)).flatMap(listLookalikes);
}

function inPlain(value: Json): Lookalike[] {
  if (Array.isArray(value)) return value.flatMap(inPlain);
  if (isObject(value)) return Object.values(value).flatMap(inPlain);
  if (typeof value !== 'string') return [];
  const isPath = /^(?:payload|context)(?:\.[\w-]+(?:\[\d+\])*)+$/.test(value);
  return isPath ? [{ written: value, reference: `{${value}}` }] : inBraces(value);
}

function inBraces(text: string): Lookalike[] {
  const found = text.match(/\{\s*(?:payload|context)\.[^{}]*\}/g) ?? [];
  return found.map((reference) => ({ written: `{${reference}}`, reference }));
}

function parse(
  value: Json,
  at: TemplateFault['at'],
  allowed: readonly ScopeRoot[],
  faults: TemplateFault[],
): Template {
  if (typeof value === 'string') {
    const parsed = parseText(value, allowed);
    if (!('fault' in parsed)) return parsed;
    faults.push({ at, message: parsed.fault });
    return { value };
  }
  if (Array.isArray(value)) {
    const list = value.map((item, index) => parse(item, [...at, index], allowed, faults));
    return list.every(isPlain) ? { value: list.map((item) => item.value) } : { list };
  }
  if (!isObject(value)) return { value };
  const entries = Object.entries(value).map(
    ([key, inner]) => [key, parse(inner, [...at, key], allowed, faults)] as const,
  );
  if (entries.some(([, inner]) => !isPlain(inner))) return { map: Object.fromEntries(entries) };
  return {
    value: Object.fromEntries(
      entries.map(([key, inner]) => [key, isPlain(inner) ? inner.value : null]),
    ),
  };
}

function isPlain(template: Template): template is { readonly value: Json } {
  return 'value' in template;
}

type Part = string | { readonly ref: ValuePath };

function parseText(text: string, allowed: readonly ScopeRoot[]): Template | { fault: string } {
  const parts: Part[] = [];
  let plain = '';
  // Double braces come first, so that they never open or close a reference.
  for (const [token] of text.matchAll(/\{\{|\}\}|\{[^{}]*\}|[^{}]+|[{}]/g)) {
    if (token === '{{' || token === '}}') plain += token.charAt(0);
    else if (token === '{') return { fault: 'has a { that is not closed; write {{ for the brace' };
    else if (token === '}') return { fault: 'has a } that closes nothing; write }} for the brace' };
    else if (token.startsWith('{')) {
      const ref = parsePath(token.slice(1, -1).trim(), allowed);
      if ('fault' in ref) return { fault: `has ${token}, which ${ref.fault}` };
      if (plain !== '') parts.push(plain);
      plain = '';
      parts.push({ ref });
    } else plain += token;
  }
  if (plain !== '') parts.push(plain);
  const [only, ...others] = parts;
  if (only === undefined) return { value: '' };
  if (others.length > 0) return { text: parts };
  return typeof only === 'string' ? { value: only } : only;
}
