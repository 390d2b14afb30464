import { isObject, type Json, type JsonObject } from '../../base/json.ts';
import { PipelineFault } from '../language/fault.ts';
import type { Graph, Node } from '../language/graph.ts';
import type { Beginning, BlockKind, Standing } from './transition.ts';
import type { Path } from '../language/scope.ts';
import { render } from '../language/template.ts';
import { nodeAt, scopeOf } from './walk.ts';

type Parent = Pick<Standing, 'node' | 'own' | 'base' | 'context'>;

/** How many branches the block has at which a branch stands. */
export function widthOf(
  graph: Graph,
  parent: Parent,
  block: BlockKind,
  events?: readonly Json[],
): number {
  if (block === 'events') return (events ?? []).length;
  const node = nodeAt(graph, parent.node);
  if (node.kind === 'split') return node.arms.length;
  return itemsOf(graph, parent).length;
}

/** How each branch of a block begins; what they share is worked out once. */
export function makeBeginner(
  graph: Graph,
  parent: Parent,
  block: BlockKind,
  events?: readonly Json[],
): (index: number) => Beginning {
  const node = nodeAt(graph, parent.node);
  if (block === 'events') {
    const { next, end } = node;
    if (next === null) throw new Error(`nothing follows step ${node.id}`);
    return (index) => ({
      node: next,
      stop: end,
      label: null,
      own: toPayload(at(events ?? [], index)),
      isWhole: true,
    });
  }
  const begun = { stop: null, isWhole: false };
  if (node.kind === 'split') {
    return (index) => {
      const { label, first } = at(node.arms, index);
      return { ...begun, node: first, label, own: {} };
    };
  }
  if (node.kind !== 'foreach') throw new Error(`step ${node.id} is not a block`);
  const items = itemsOf(graph, parent);
  const { as, first } = node;
  return (index) => ({
    ...begun,
    node: first,
    label: null,
    own: { [as]: at(items, index), index },
  });
}

/**
 * What plugins in the branches of a block get of what lies beneath: each has its own element of a
 * list, and with the whole list sent along with each, a long one would be sent as often as it is long.
 */
export function beneathFor(node: Node, payload: JsonObject): JsonObject {
  if (node.kind !== 'foreach' || !('ref' in node.items)) return payload;
  const [root, ...path] = node.items.ref;
  return root === 'payload' ? without(payload, path) : payload;
}

function without(payload: JsonObject, [key, ...path]: Path): JsonObject {
  const inner = key === undefined ? undefined : payload[key];
  if (key === undefined || inner === undefined) return payload;
  const { [key]: _, ...rest } = payload;
  if (path.length === 0) return rest;
  return isObject(inner) ? { ...payload, [key]: without(inner, path) } : payload;
}

/** What an event carries, as the payload of what follows it. */
export function toPayload(event: Json): JsonObject {
  return isObject(event) ? event : { value: event };
}

function itemsOf(graph: Graph, parent: Parent): readonly Json[] {
  const node = nodeAt(graph, parent.node);
  if (node.kind !== 'foreach') throw new Error(`step ${node.id} is not a foreach`);
  const items = render(node.items, scopeOf(parent));
  if (Array.isArray(items)) return items;
  throw new PipelineFault(`its foreach is over ${nameOf(items)}, not over a list`);
}

function nameOf(value: Json): string {
  if (value === null) return 'null';
  return isObject(value) ? 'an object' : `a ${typeof value}`;
}

function at<T>(list: readonly T[], index: number): T {
  if (!(index in list)) throw new Error(`a block of ${list.length} has no branch ${index}`);
  return list[index] as T;
}
