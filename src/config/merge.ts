import { isObject } from '../base/json.ts';
import type { Document, Path } from './document.ts';

/**
 * Several documents as one. Maps are merged key by key at every depth, lists are appended, and of
 * two other values the later one wins, whatever it is. A key without a value after a map or a list
 * changes nothing: that is what is left when somebody comments out the lines below it.
 */
export function mergeDocuments(documents: readonly Document[]): Document {
  const [first, ...others] = documents.map((document) => toNode(document.value, document, []));
  const root = others.reduce<Node | undefined>(
    (merged, node) => (merged === undefined ? node : mergeNodes(merged, node)),
    first,
  );
  return {
    value: root === undefined ? null : toValue(root),
    problems: documents.flatMap(({ problems }) => problems),
    placeOf: (path) => (root === undefined ? '' : placeOf(root, path)),
  };
}

/** A value together with where it was written. */
interface Node {
  readonly document: Document;
  readonly path: Path;
  readonly content:
    | { readonly map: ReadonlyMap<string, Node> }
    | { readonly list: readonly Node[] }
    | { readonly scalar: unknown };
}

function toNode(value: unknown, document: Document, path: Path): Node {
  if (Array.isArray(value)) {
    const list = value.map((inner, index) => toNode(inner, document, [...path, index]));
    return { document, path, content: { list } };
  }
  if (!isObject(value)) return { document, path, content: { scalar: value } };
  const entries = Object.entries(value).map(
    ([key, inner]) => [key, toNode(inner, document, [...path, key])] as const,
  );
  return { document, path, content: { map: new Map(entries) } };
}

function mergeNodes(before: Node, after: Node): Node {
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

function toValue({ content }: Node): unknown {
  if ('scalar' in content) return content.scalar;
  if ('list' in content) return content.list.map(toValue);
  return Object.fromEntries([...content.map].map(([key, node]) => [key, toValue(node)]));
}

/** The place of the key, or of the nearest thing around it. */
function placeOf(root: Node, path: Path): string {
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
