import { isObject } from '../base/json.ts';
import { EXTENSION_PREFIX } from './extension-keys.ts';
import { translations } from './translations.ts';
import type { Translation } from './translations.ts';

type Schema = Record<string, unknown>;

/** Lets editors accept the original's spellings as deprecated, and keys that start with `x-`. */
export function allowDeprecatedKeys(root: Schema): void {
  for (const translation of translations) allowAt(root, translation.from.split('.'), translation);
  allowExtensions(root);
}

function allowAt(schema: unknown, [word = '', ...rest]: readonly string[], one: Translation): void {
  if (!isObject(schema)) return;
  if (word === '*') {
    allowAt(schema['items'] ?? schema['additionalProperties'], rest, one);
    return;
  }
  const properties = schema['properties'];
  if (!isObject(properties)) return;
  const known = properties[word];
  if (rest.length > 0) {
    // A key that has a second form is the first of two.
    const [first] = isObject(known) && Array.isArray(known['anyOf']) ? known['anyOf'] : [known];
    allowAt(first, rest, one);
  } else if (known === undefined) {
    properties[word] = { deprecated: true, description: one.hint };
  } else if (isObject(known) && known['deprecated'] !== true) {
    const list = { type: 'array', deprecated: true, description: one.hint };
    properties[word] = { anyOf: [known, list] };
  }
}

/** Only where other keys are refused: elsewhere any key is accepted already. */
function allowExtensions(schema: unknown): void {
  if (Array.isArray(schema)) {
    for (const inner of schema) allowExtensions(inner);
    return;
  }
  if (!isObject(schema)) return;
  for (const inner of Object.values(schema)) allowExtensions(inner);
  if (schema['additionalProperties'] !== false) return;
  schema['patternProperties'] = { [`^${EXTENSION_PREFIX}`]: {} };
}
