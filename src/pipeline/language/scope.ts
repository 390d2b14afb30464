import { isObject, type Json, type JsonObject } from '../../base/json.ts';

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

/** Undefined when there is nothing at that place. A number is an index where there is a list,
 * and `photos[0]` the first of `photos` unless a key is called so. */
export function lookUp(path: Path, scope: Scope): Json | undefined {
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

/** The key that a word of a path begins with, where it ends like `photos[0]`. */
export function keyIn(word: string): string {
  return word.replace(/(?:\[\d+\])+$/, '');
}
