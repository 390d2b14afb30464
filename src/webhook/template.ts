import { DuctileError } from '../base/errors.ts';
import { isObject, type Json, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';

/** A name such as `a`, `a-b` or `webhook.event`, with spaces around it or none. */
const PLACEHOLDER = /\{\{[ \t]*([\p{L}\p{N}_][\p{L}\p{N}_.-]*)[ \t]*\}\}/gu;

/** Anything in double braces on one line, also what isn't a placeholder. */
const BRACES = /\{\{([^{}\n]*)\}\}/g;

export function hasPlaceholder(text: string): boolean {
  return text.search(PLACEHOLDER) !== -1;
}

/** The first text in double braces that names nothing, such as `{{a b}}`. */
export function findBadPlaceholder(text: string): string | undefined {
  return text.match(BRACES)?.find((found) => !hasPlaceholder(found));
}

/**
 * The template with the payload's own fields in it: text as it is, everything else as compact JSON.
 * A name with dots finds a key of that name, else something in `besides`, such as `webhook.event`, or
 * else in the payload. What is missing or null shows as `{{?field}}`. What was put in is not looked at again.
 */
export function renderTemplate(
  template: string,
  payload: JsonObject,
  besides: JsonObject = {},
): string {
  const kept = new Map<string, string>();
  let rendered = '';
  let from = 0;
  for (const match of template.matchAll(PLACEHOLDER)) {
    const [whole, field = ''] = match;
    const shown = kept.get(field) ?? show(field, payload, besides);
    kept.set(field, shown);
    rendered += template.slice(from, match.index) + shown;
    from = match.index + whole.length;
    if (rendered.length > limits.promptCharsMax) throw tooLong();
  }
  rendered += template.slice(from);
  if (rendered.length > limits.promptCharsMax) throw tooLong();
  return rendered;
}

function show(field: string, payload: JsonObject, besides: JsonObject): string {
  const value = Object.hasOwn(payload, field)
    ? payload[field]
    : (valueAt(besides, field) ?? valueAt(payload, field));
  if (value === undefined || value === null) return `{{?${field}}}`;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function valueAt(value: Json | undefined, path: string): Json | undefined {
  if (!isObject(value)) return undefined;
  if (Object.hasOwn(value, path)) return value[path];
  const dot = path.indexOf('.');
  const word = path.slice(0, dot);
  if (dot === -1 || !Object.hasOwn(value, word)) return undefined;
  return valueAt(value[word], path.slice(dot + 1));
}

function tooLong(): DuctileError {
  const message = `the rendered template is longer than ${limits.promptCharsMax} characters`;
  return new DuctileError('PAYLOAD_TOO_LARGE', message, { place: 'prompt_template' });
}
