import { isObject, type Json, type JsonObject } from '../../src/base/json.ts';

/** Ends the recursion of schemas that contain themselves. */
const DEPTH_MAX = 12;

/** Creates a small value that fits a JSON Schema. */
export function sampleOf(schema: Readonly<JsonObject> | undefined): JsonObject {
  const value = sample(schema ?? {}, 0);
  return isObject(value) ? value : {};
}

function sample(schema: Readonly<JsonObject>, depth: number): Json {
  const { const: constant, default: fallback, enum: choices, examples, properties } = schema;
  const stated = [constant, fallback, first(choices), first(examples)].find(
    (value) => value !== undefined,
  );
  if (stated !== undefined) return stated;
  const inner = [schema['oneOf'], schema['anyOf'], schema['allOf']].map(first).find(isObject);
  if (inner !== undefined && depth < DEPTH_MAX) return sample(inner, depth + 1);
  const { type } = schema;
  const kind = Array.isArray(type) ? type[0] : type;
  if (kind === 'object' || (kind === undefined && isObject(properties))) {
    return sampleObject(schema, depth);
  }
  return sampleScalar(schema, kind, depth);
}

function sampleObject({ properties }: Readonly<JsonObject>, depth: number): JsonObject {
  if (!isObject(properties) || depth >= DEPTH_MAX) return {};
  return Object.fromEntries(
    Object.entries(properties).map(([key, inner]) => [
      key,
      sample(isObject(inner) ? inner : {}, depth + 1),
    ]),
  );
}

function sampleScalar(schema: Readonly<JsonObject>, kind: Json | undefined, depth: number): Json {
  const { minLength, minimum, items, minItems } = schema;
  switch (kind) {
    case 'array': {
      const inner = isObject(items) && depth < DEPTH_MAX ? sample(items, depth + 1) : null;
      return Array.from({ length: Math.max(1, Number(minItems ?? 1)) }, () => inner);
    }
    case 'number':
    case 'integer':
      return Number(minimum ?? 1);
    case 'boolean':
      return true;
    case 'null':
      return null;
    default:
      return 'sample'.padEnd(Number(minLength ?? 0), '.');
  }
}

function first(list: Json | undefined): Json | undefined {
  return Array.isArray(list) ? list[0] : undefined;
}
