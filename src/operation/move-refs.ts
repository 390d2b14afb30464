import { isObject } from '../base/json.ts';

/** Values in a schema that are data, and those that hold schemas by names of their own. */
const DATA: ReadonlySet<string> = new Set(['const', 'default', 'enum', 'example', 'examples']);
const NAMED: ReadonlySet<string> = new Set([
  '$defs',
  'definitions',
  'dependentSchemas',
  'patternProperties',
  'properties',
]);

/** A schema points into itself from its own beginning, which here is not that of the document. */
export function moveRefs(schema: unknown, place: string): unknown {
  if (Array.isArray(schema)) return schema.map((entry) => moveRefs(entry, place));
  // One with an id of its own is the document that its pointers are about.
  if (!isObject(schema) || typeof schema['$id'] === 'string') return schema;
  return mapValues(schema, (value, key) => {
    if (key === '$ref' && typeof value === 'string') return value.replace(/^#(?=\/|$)/, place);
    if (DATA.has(key)) return value;
    if (NAMED.has(key) && isObject(value)) return mapValues(value, (one) => moveRefs(one, place));
    return moveRefs(value, place);
  });
}

function mapValues(
  object: Readonly<Record<string, unknown>>,
  change: (value: unknown, key: string) => unknown,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(object).map(([key, value]) => [key, change(value, key)]),
  );
}
