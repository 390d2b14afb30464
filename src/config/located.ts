import { isObject } from '../base/json.ts';
import type { Document, KeyPath } from './document.ts';
import * as z from 'zod';
import { findForm } from '../pipeline/language/entry-fields.ts';
import { unwrap } from './issues.ts';

/** A value with its location. */
export interface LocatedNode {
  readonly document: Document;
  /** The path in its own document, which can differ from the path in the merged one. */
  readonly path: KeyPath;
  readonly content:
    | { readonly map: ReadonlyMap<string, LocatedNode> }
    | { readonly list: readonly LocatedNode[] }
    | { readonly scalar: unknown };
}

export function toLocated(value: unknown, document: Document, path: KeyPath = []): LocatedNode {
  if (Array.isArray(value)) {
    const list = value.map((inner, index) => toLocated(inner, document, [...path, index]));
    return { document, path, content: { list } };
  }
  if (!isObject(value)) return { document, path, content: { scalar: value } };
  const entries = Object.entries(value).map(
    ([key, inner]) => [key, toLocated(inner, document, [...path, key])] as const,
  );
  return { document, path, content: { map: new Map(entries) } };
}

export function toPlain({ content }: LocatedNode): unknown {
  if ('scalar' in content) return content.scalar;
  if ('list' in content) return content.list.map(toPlain);
  return Object.fromEntries([...content.map].map(([key, node]) => [key, toPlain(node)]));
}

/** Returns the location of the key, or of its nearest parent. */
function findLocation(root: LocatedNode, path: KeyPath): string {
  let node = root;
  for (const [index, segment] of path.entries()) {
    const { content } = node;
    const next =
      'map' in content
        ? content.map.get(String(segment))
        : 'list' in content
          ? content.list[Number(segment)]
          : undefined;
    if (next === undefined) return node.document.placeOf([...node.path, ...path.slice(index)]);
    node = next;
  }
  return node.document.placeOf(node.path);
}

/**
 * Merges documents. Maps are merged key by key at every depth, lists are appended, and a later
 * value replaces an earlier one. A key without a value doesn't replace a map or a list, because
 * commenting out the lines below a key leaves that. `prepare` changes each document before merging.
 */
export function mergeDocuments(
  documents: readonly Document[],
  prepare: (root: LocatedNode) => LocatedNode = (root) => root,
): Document {
  const [first, ...others] = documents.map((document) =>
    prepare(toLocated(document.value, document)),
  );
  const root = others.reduce<LocatedNode | undefined>(
    (merged, node) => (merged === undefined ? node : mergeNodes(merged, node)),
    first,
  );
  return {
    value: root === undefined ? null : toPlain(root),
    problems: documents.flatMap(({ problems }) => problems),
    placeOf: (path) => (root === undefined ? '' : findLocation(root, path)),
  };
}

function mergeNodes(before: LocatedNode, after: LocatedNode): LocatedNode {
  const [a, b] = [before.content, after.content];
  if ('map' in a && 'map' in b) {
    const map = new Map(a.map);
    for (const [key, node] of b.map) {
      const same = map.get(key);
      map.set(key, same === undefined ? node : mergeNodes(same, node));
    }
    return { ...before, content: { map } };
  }
  if ('list' in a && 'list' in b) return { ...before, content: { list: [...a.list, ...b.list] } };
  const isEmpty = 'scalar' in b && (b.scalar === null || b.scalar === undefined);
  return isEmpty && !('scalar' in a) ? before : after;
}

export const EXTENSION_PREFIX = 'x-';

/**
 * Drops keys that start with `x-` where a schema fixes the keys, as Compose does. Names that users
 * choose, such as those of plugins, may start with `x-`.
 */
export function dropExtensionKeys(node: LocatedNode, schema: z.core.$ZodType): LocatedNode {
  const type = unwrap(findForm(schema, () => toPlain(node)) ?? schema);
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
