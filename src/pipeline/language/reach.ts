import type { Graph, Node, NodeId } from './graph.ts';
import type { BlockKind } from '../run/transition.ts';

/** A step and all that may come after it, also within blocks, up to the end of its branch. */
export function reachOf(graph: Graph, from: NodeId | null): Set<NodeId> {
  const reached = new Set<NodeId>();
  const ahead = from === null ? [] : [from];
  for (let id = ahead.pop(); id !== undefined; id = ahead.pop()) {
    const node = graph.nodes[id];
    if (node === undefined || reached.has(id)) continue;
    reached.add(id);
    for (const next of [node.next, ...within(node)]) if (next !== null) ahead.push(next);
  }
  return reached;
}

/** The steps that branches of a block take. */
export function insideOf(graph: Graph, block: NodeId, kind: BlockKind): Set<NodeId> {
  const node = graph.nodes[block];
  if (node === undefined) return new Set();
  if (kind === 'events') {
    const behind = reachOf(graph, node.end);
    return new Set([...reachOf(graph, node.next)].filter((id) => !behind.has(id)));
  }
  return new Set(within(node).flatMap((first) => [...reachOf(graph, first)]));
}

/** What comes after a block when its branches have joined. */
export function behindOf(graph: Graph, block: NodeId, kind: BlockKind): Set<NodeId> {
  const node = graph.nodes[block];
  if (node === undefined) return new Set();
  return reachOf(graph, kind === 'events' ? node.end : node.next);
}

/** The first steps of what is in a node: arms, elements or cases. */
function within(node: Node): NodeId[] {
  if (node.kind === 'split') return node.arms.map(({ first }) => first);
  if (node.kind === 'foreach') return [node.first];
  if (node.kind !== 'switch') return [];
  const arms = [...node.cases, ...(node.otherwise === undefined ? [] : [node.otherwise])];
  return arms.flatMap(({ first }) => first ?? []);
}
