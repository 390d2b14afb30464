import { isObject } from '../base/json.ts';
import type { Document, Path } from './document.ts';

/** A value together with where it was written. */
export interface LocatedNode {
  readonly document: Document;
  /** Where it is in that document, which is not where it is in the whole. */
  readonly path: Path;
  readonly content:
    | { readonly map: ReadonlyMap<string, LocatedNode> }
    | { readonly list: readonly LocatedNode[] }
    | { readonly scalar: unknown };
}

export function toLocated(value: unknown, document: Document, path: Path = []): LocatedNode {
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

/** The location of the key, or of the nearest thing around it. */
export function findLocation(root: LocatedNode, path: Path): string {
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
