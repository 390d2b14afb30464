import { isObject, type Json, type JsonObject } from '../base/json.ts';

/** What conditions and templates can see. */
export interface Scope {
  readonly payload: JsonObject;
  /** The baggage of the chain. */
  readonly context: JsonObject;
  /** The signal that a `wait` is looking at. */
  readonly signal?: Json;
}

/** A root and the way down from it, such as `payload.photo.name`. */
export type Path = readonly string[];

export const roots = ['payload', 'context', 'signal'] as const;
export type Root = (typeof roots)[number];

/** A path as its words, or what is wrong with it. */
export function parsePath(text: string, allowed: readonly Root[]): Path | { fault: string } {
  const words = text.split('.');
  const [root] = words;
  if (!allowed.some((known) => known === root)) {
    return { fault: `must begin with ${allowed.join('. or ')}.` };
  }
  if (words.some((word) => word.trim() === '')) return { fault: 'has an empty part' };
  return words;
}

export function pathText(path: Path): string {
  return path.join('.');
}

/** Undefined when there is nothing at that place. A number is an index where there is a list. */
export function lookUp(path: Path, scope: Scope): Json | undefined {
  const [root, ...words] = path;
  let value: Json | undefined;
  if (root === 'payload') value = scope.payload;
  else if (root === 'context') value = scope.context;
  else value = scope.signal;
  for (const word of words) {
    if (isObject(value) && Object.hasOwn(value, word)) value = value[word];
    else if (Array.isArray(value) && /^(0|[1-9]\d{0,8})$/.test(word)) value = value[Number(word)];
    else return undefined;
  }
  return value;
}
