import { isObject, type Json, type JsonObject } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { PipelineFault } from '../run/halt.ts';
import { isSameJson } from './condition.ts';
import {
  findValue,
  parsePath,
  formatPath,
  type ValuePath,
  type Scope,
  type TemplateFault,
} from './template.ts';

/**
 * Entries that a step adds to the baggage: the source path in the scope and the target path in the
 * baggage.
 */
export type BaggageRule = readonly { readonly to: ValuePath; readonly from: ValuePath }[];

/** Returns all baggage from this step on. Baggage only grows: an existing value can't change. */
export function extendBaggage(rule: BaggageRule, scope: Scope): JsonObject {
  let context: JsonObject = scope.context;
  for (const { to, from } of rule) {
    const value = findValue(from, scope);
    if (value === undefined) throw new PipelineFault(`there is no ${formatPath(from)} for baggage`);
    context = put(context, to, value, to);
  }
  const bytes = Buffer.byteLength(JSON.stringify(context));
  if (bytes <= limits.baggageBytesMax) return context;
  throw new PipelineFault(
    `the baggage would have ${bytes} bytes; at most ${limits.baggageBytesMax} are allowed`,
  );
}

function put(
  into: JsonObject,
  [word = '', ...rest]: ValuePath,
  value: Json,
  whole: ValuePath,
): JsonObject {
  const known = Object.hasOwn(into, word) ? into[word] : undefined;
  return { ...into, [word]: merge(known, rest, value, whole) };
}

function merge(known: Json | undefined, rest: ValuePath, value: Json, whole: ValuePath): Json {
  if (rest.length > 0) {
    if (known === undefined) return put({}, rest, value, whole);
    if (isObject(known)) return put(known, rest, value, whole);
    throw createOverwriteFault(whole);
  }
  if (known === undefined || isSameJson(known, value)) return value;
  if (!isObject(known) || !isObject(value)) throw createOverwriteFault(whole);
  return Object.entries(value).reduce<JsonObject>(
    (merged, [key, inner]) => put(merged, [key], inner, [...whole, key]),
    known,
  );
}

function createOverwriteFault(path: ValuePath): PipelineFault {
  const message = `the baggage already has another value for ${formatPath(path)}`;
  return new PipelineFault(`${message}, and baggage cannot be changed`);
}

export type ParsedBaggage =
  | { readonly ok: true; readonly rule: BaggageRule }
  | { readonly ok: false; readonly faults: readonly TemplateFault[] };

/** Parses a map from target to source, or `from` and `namespace` for a whole source. */
export function parseBaggage(value: JsonObject): ParsedBaggage {
  const isBulk =
    Object.hasOwn(value, 'namespace') && Object.keys(value).every((key) => bulkKeys.has(key));
  const written: readonly (readonly [Json, Json, string])[] = isBulk
    ? [[value['namespace'] ?? null, value['from'] ?? null, 'from']]
    : Object.entries(value).map(([to, from]) => [to, from, to] as const);
  const faults: TemplateFault[] = [];
  const rule: { to: ValuePath; from: ValuePath }[] = [];
  for (const [to, from, key] of written) {
    const target = parseTarget(to);
    const source =
      typeof from === 'string'
        ? parsePath(from, ['payload', 'context'])
        : { fault: 'must be a path such as payload.user' };
    if ('fault' in target)
      faults.push({ at: [isBulk ? 'namespace' : key], ...withMessage(target) });
    else if ('fault' in source) faults.push({ at: [key], ...withMessage(source) });
    else rule.push({ to: target, from: source });
  }
  return faults.length === 0 ? { ok: true, rule } : { ok: false, faults };
}

const bulkKeys: ReadonlySet<string> = new Set(['from', 'namespace']);

function withMessage({ fault }: { readonly fault: string }): { message: string } {
  return { message: fault };
}

function parseTarget(to: Json): ValuePath | { fault: string } {
  const words = typeof to === 'string' ? to.split('.') : [];
  const isSound =
    words.length > 0 && words.every((word) => /^(?!__proto__$)[A-Za-z_][A-Za-z0-9_]*$/.test(word));
  if (!isSound) return { fault: 'must be words of letters, digits and _, with dots between them' };
  if (words[0] === 'ductile') return { fault: 'must not begin with ductile, which is reserved' };
  return words;
}
