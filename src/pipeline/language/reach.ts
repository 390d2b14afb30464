import type { Graph, Node, NodeId } from './graph.ts';
import type { BlockKind } from '../run/transition.ts';

/** Lists a step and all steps that can follow it on its branch, including steps within blocks. */
export function listReachable(graph: Graph, from: NodeId | null): Set<NodeId> {
  const reached = new Set<NodeId>();
  const ahead = from === null ? [] : [from];
  for (let id = ahead.pop(); id !== undefined; id = ahead.pop()) {
    const node = graph.nodes[id];
    if (node === undefined || reached.has(id)) continue;
    reached.add(id);
    for (const next of [node.next, ...listFirstInside(node)]) if (next !== null) ahead.push(next);
  }
  return reached;
}

/** Lists the steps that the branches of a block can run. */
export function listInsideBlock(graph: Graph, block: NodeId, kind: BlockKind): Set<NodeId> {
  const node = graph.nodes[block];
  if (node === undefined) return new Set();
  if (kind === 'events') {
    const behind = listReachable(graph, node.end);
    return new Set([...listReachable(graph, node.next)].filter((id) => !behind.has(id)));
  }
  return new Set(listFirstInside(node).flatMap((first) => [...listReachable(graph, first)]));
}

/** Lists the steps that can follow after the branches of a block joined. */
export function listAfterBlock(graph: Graph, block: NodeId, kind: BlockKind): Set<NodeId> {
  const node = graph.nodes[block];
  if (node === undefined) return new Set();
  return listReachable(graph, kind === 'events' ? node.end : node.next);
}

/** Lists the first steps of the arms, elements or cases of a node. */
function listFirstInside(node: Node): NodeId[] {
  if (node.kind === 'split') return node.arms.map(({ first }) => first);
  if (node.kind === 'foreach') return [node.first];
  if (node.kind !== 'switch') return [];
  const arms = [...node.cases, ...(node.otherwise === undefined ? [] : [node.otherwise])];
  return arms.flatMap(({ first }) => first ?? []);
}
