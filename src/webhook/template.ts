import { DuctileError } from '../base/errors.ts';
import type { Json, JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';

const PLACEHOLDER = /\{\{([\p{L}\p{N}_]+)\}\}/gu;

export function hasPlaceholder(text: string): boolean {
  return text.search(PLACEHOLDER) !== -1;
}

/**
 * The template with the payload's own fields in it: text as it is, everything else as compact JSON.
 * What is missing or null shows as `{{?field}}`. What was put in is not looked at again.
 */
export function renderTemplate(template: string, payload: JsonObject): string {
  const kept = new Map<string, string>();
  let rendered = '';
  let from = 0;
  for (const match of template.matchAll(PLACEHOLDER)) {
    const [whole, field = ''] = match;
    const shown = kept.get(field) ?? show(field, payload);
    kept.set(field, shown);
    rendered += template.slice(from, match.index) + shown;
    from = match.index + whole.length;
    if (rendered.length > limits.promptCharsMax) throw tooLong();
  }
  rendered += template.slice(from);
  if (rendered.length > limits.promptCharsMax) throw tooLong();
  return rendered;
}

function show(field: string, payload: JsonObject): string {
  const value: Json | undefined = Object.hasOwn(payload, field) ? payload[field] : undefined;
  if (value === undefined || value === null) return `{{?${field}}}`;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function tooLong(): DuctileError {
  const message = `the rendered template is longer than ${limits.promptCharsMax} characters`;
  return new DuctileError('PAYLOAD_TOO_LARGE', message, { place: 'prompt_template' });
}
