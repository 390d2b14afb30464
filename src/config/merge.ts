import type { Document } from './document.ts';
import { findLocation, toLocated, toPlain } from './located.ts';
import type { LocatedNode } from './located.ts';

/**
 * Several documents as one. Maps are merged key by key at every depth, lists are appended, and of
 * two other values the later one wins, whatever it is. A key without a value after a map or a list
 * changes nothing: that is what is left when somebody comments out the lines below it. `prepare`
 * changes each document before it is merged.
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
