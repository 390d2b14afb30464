import * as z from 'zod';
import { formOf } from '../pipeline/language/entry-fields.ts';
import { unwrap } from './issues.ts';
import { toPlain } from './located.ts';
import type { LocatedNode } from './located.ts';

export const EXTENSION_PREFIX = 'x-';

/**
 * Leaves out keys that start with `x-` wherever a schema fixes the keys, as Compose does. Where keys
 * are names that people choose, such as those of plugins, they are names.
 */
export function dropExtensionKeys(node: LocatedNode, schema: z.core.$ZodType): LocatedNode {
  const type = unwrap(formOf(schema, () => toPlain(node)) ?? schema);
  const { content } = node;
  if ('list' in content) {
    if (!(type instanceof z.ZodArray)) return node;
    const list = content.list.map((inner) => dropExtensionKeys(inner, type.element));
    return { ...node, content: { list } };
  }
  if (!('map' in content)) return node;
  const map = new Map<string, LocatedNode>();
  for (const [key, inner] of content.map) {
    const below = schemaOf(type, key);
    if (below === undefined && type instanceof z.ZodObject && key.startsWith(EXTENSION_PREFIX)) {
      continue;
    }
    map.set(key, below === undefined ? inner : dropExtensionKeys(inner, below));
  }
  return { ...node, content: { map } };
}

function schemaOf(type: z.core.$ZodType, key: string): z.core.$ZodType | undefined {
  if (type instanceof z.ZodRecord) return type.valueType;
  if (!(type instanceof z.ZodObject)) return undefined;
  const shape = type.shape as Readonly<Record<string, z.core.$ZodType>>;
  return Object.hasOwn(shape, key) ? shape[key] : undefined;
}
