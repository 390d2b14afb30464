import type { Json, JsonObject } from '../../base/json.ts';
import { parseJson } from '../../base/parse-json.ts';
import type { Graph, Node, NodeId } from '../language/graph.ts';
import { ancestorsOf } from './changes.ts';
import type { BlockKind, BranchRow, RunRow } from './run.ts';

/** The branches of an ended run that are reset to repeat a step, and their new positions. */
export interface RetryFromPlan {
  readonly run: RunRow;
  readonly graph: Graph;
  readonly step: NodeId;
  /** The step and all steps that can follow it on its branch. */
  readonly repeated: ReadonlySet<NodeId>;
  /** The branches that reached the step, and the jobs that they had there. */
  readonly reached: ReadonlyMap<string, string | null>;
  /** The ancestors of these branches, and the blocks for which they wait again. */
  readonly reopened: ReadonlyMap<string, ReopenedBlock>;
  /** For each of both, the last earlier step with an output to continue from. */
  readonly before: ReadonlyMap<string, EarlierStep>;
  readonly isDropped: IsDropped;
}

export interface ReopenedBlock {
  readonly block: NodeId;
  readonly kind: BlockKind;
  /** The branch's moves when it opened the block. */
  readonly moves: number;
  /** The steps after the block. */
  readonly after: ReadonlySet<NodeId>;
}

export interface EarlierStep {
  readonly stepId: string;
  readonly node: NodeId;
  readonly kind: string;
}

/** Returns true for steps of the old run that the new run repeats. */
export type IsDropped = (branchId: string, node: string, kind?: string) => boolean;

/** Finds the blocks that contain a step, by their kind. */
export function findBlocksAround(graph: Graph, step: NodeId): Map<string, Set<NodeId>> {
  const blocks = new Map<string, Set<NodeId>>();
  for (const node of Object.values(graph.nodes)) {
    const kind = node.kind === 'task' ? 'events' : node.kind;
    if (kind !== 'events' && kind !== 'split' && kind !== 'foreach') continue;
    if (!listInsideBlock(graph, node.id, kind).has(step)) continue;
    blocks.set(kind, (blocks.get(kind) ?? new Set()).add(node.id));
  }
  return blocks;
}

export function createIsDropped(
  repeated: ReadonlySet<NodeId>,
  reached: ReadonlyMap<string, unknown>,
  reopened: ReadonlyMap<string, ReopenedBlock>,
): IsDropped {
  return (branchId, node, kind) => {
    const own = reopened.get(branchId);
    if (own !== undefined && node === own.block && kind === own.kind) return true;
    return [branchId, ...ancestorsOf(branchId)].some(
      (id) => (reached.has(id) && repeated.has(node)) || reopened.get(id)?.after.has(node) === true,
    );
  };
}

const reachableOf = new WeakMap<Graph, Map<NodeId, Set<NodeId>>>();

/** True if a step comes after another one. The order of the pipeline decides. */
export function isLaterStep(graph: Graph, step: EarlierStep, other: EarlierStep): boolean {
  if (step.node === other.node) return step.kind === 'events';
  let known = reachableOf.get(graph);
  if (known === undefined) reachableOf.set(graph, (known = new Map()));
  let reachable = known.get(other.node);
  if (reachable === undefined)
    known.set(other.node, (reachable = listReachable(graph, other.node)));
  return reachable.has(step.node);
}

/** Finds the node that a branch is reset to, if any, and whether it stopped there already. */
export function findDestination(
  { reopened, reached, step }: RetryFromPlan,
  branch: BranchRow,
): { readonly node: NodeId | undefined; readonly isThere: boolean } {
  const node = reopened.get(branch.id)?.block ?? (reached.has(branch.id) ? step : undefined);
  return { node, isThere: branch.node === node && branch.status !== 'succeeded' };
}

/** The plan was checked for ambiguity before, so the value is known. */
export function requireKnown<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a branch cannot be reset: its payload is unknown');
  return value;
}

/** Returns undefined if the payload that the branch started with can't be recovered. */
export function findInitialPayload(
  { reopened, graph }: RetryFromPlan,
  branch: BranchRow,
  parent: string,
): string | undefined {
  const around = reopened.get(parent);
  if (around === undefined) throw new Error(`branch ${branch.id} is in no block`);
  if (around.kind === 'split') return '{}';
  const block = graph.nodes[around.block];
  if (block?.kind === 'foreach') {
    const { [block.as]: item, index } = parseJson(branch.payload) as JsonObject;
    if (item !== undefined && index === branch.index)
      return formatItemPayload(block.as, item, index);
  }
  return undefined;
}

function formatItemPayload(as: string, item: Json, index: Json): string {
  return JSON.stringify({ [as]: item, index });
}

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
