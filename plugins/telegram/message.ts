/** Creates the message for an event, in parts that Telegram accepts. */
import { isObject, type Json, type JsonObject } from '../../sdk/typescript/ductile-plugin.ts';

/** Maximum length of a message, in UTF-16 units. */
export const MESSAGE_UNITS_MAX = 4096;
const MESSAGES_MAX = 20;

export function compose(
  type: string,
  payload: JsonObject,
  template: string | undefined,
  warn: (message: string) => void,
): string {
  if (type === 'agent.reply') return textOf(payload['text']);
  if (type === 'agent.result') return ofResult(payload);
  if (type === 'job.dead') return ofDeath(payload);
  if (template !== undefined) return fill(template, payload, warn);
  return textOf(payload['message']) || textOf(payload['text']) || JSON.stringify(payload);
}

/** Splits a text into parts of limited length, at paragraphs, lines or words if possible. */
export function split(text: string, unitsMax = MESSAGE_UNITS_MAX): string[] {
  const pieces: string[] = [];
  let rest = text.trim();
  while (rest.length > unitsMax && pieces.length < MESSAGES_MAX - 1) {
    const at = borderIn(rest, unitsMax);
    pieces.push(rest.slice(0, at).trimEnd());
    rest = rest.slice(at).trimStart();
  }
  if (rest.length > unitsMax) rest = `${rest.slice(0, wholeBefore(rest, unitsMax - 1))}…`;
  return rest === '' ? pieces : [...pieces, rest];
}

function borderIn(text: string, unitsMax: number): number {
  const head = text.slice(0, unitsMax + 1);
  for (const border of ['\n\n', '\n', ' ']) {
    const at = head.lastIndexOf(border);
    // A split near the start would create many small messages.
    if (at > unitsMax / 2) return at;
  }
  return wholeBefore(text, unitsMax);
}

/** Avoids splitting a surrogate pair. */
function wholeBefore(text: string, at: number): number {
  return /[\uD800-\uDBFF]/.test(text.charAt(at - 1)) ? at - 1 : at;
}

function ofResult({ title, task_folder: folder, text, status }: JsonObject): string {
  const heading = textOf(title) || textOf(folder);
  const body = textOf(text) || textOf(status);
  return heading === '' ? body : `${heading}\n\n${body}`;
}

function ofDeath({ plugin, command, status, error, actor, job_id: id }: JsonObject): string {
  const what = `${textOf(plugin)} ${textOf(command)}: ${textOf(status)}`;
  const by = textOf(actor) === '' ? '' : `by ${textOf(actor)}`;
  return [what, textOf(error), by, `job ${textOf(id)}`].filter((line) => line !== '').join('\n');
}

/** Replaces in one pass: a placeholder in a value is never replaced. */
function fill(template: string, payload: JsonObject, warn: (message: string) => void): string {
  return template.replaceAll(/\{\{\s*([\w.-]+)\s*\}\}/g, (_match, path: string) => {
    const value = lookUp(payload, path.split('.'));
    if (value === null) warn(describeMissing(path, payload));
    return textOf(value);
  });
}

/** Field names that a warning lists at most. */
const KEYS_SHOWN = 20;

function describeMissing(path: string, payload: JsonObject): string {
  const keys = Object.keys(payload).toSorted().slice(0, KEYS_SHOWN).join(', ') || 'no fields';
  return `config.template: the payload has no ${path}, so it is empty in the message; the payload has ${keys}`;
}

function lookUp(payload: Json, keys: readonly string[]): Json {
  let value: Json = payload;
  for (const key of keys) {
    if (Array.isArray(value)) value = /^\d+$/.test(key) ? (value[Number(key)] ?? null) : null;
    else value = isObject(value) && Object.hasOwn(value, key) ? (value[key] ?? null) : null;
  }
  return value;
}

function textOf(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
