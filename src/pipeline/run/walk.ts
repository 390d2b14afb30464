import { limits } from '../../base/limits.ts';
import type { JsonObject } from '../../base/json.ts';
import type { PipelineFault } from '../language/fault.ts';
import type { Graph, Node, NodeId } from '../language/graph.ts';
import type { Move, Standing, StepTaken, Landing } from './transition.ts';
import type { HaltReason } from './run.ts';
import type { Scope } from '../language/scope.ts';

/** A branch on its way: what it carries changes from node to node. */
export interface Walk {
  readonly graph: Graph;
  readonly stop: NodeId | null;
  readonly steps: StepTaken[];
  node: Node;
  own: JsonObject;
  base: JsonObject;
  context: JsonObject;
  /** What `own` was when it was last written as text, and that text. */
  written: { readonly own: JsonObject; readonly text: string } | undefined;
}

export function beginWalk(graph: Graph, standing: Standing): Walk {
  const { stop, own, base, context } = standing;
  const node = nodeAt(graph, standing.node);
  return { graph, stop, steps: [], node, own, base, context, written: undefined };
}

export function nodeAt(graph: Graph, id: NodeId): Node {
  const node = graph.nodes[id];
  if (node === undefined) throw new Error(`the pipeline ${graph.name} has no step ${id}`);
  return node;
}

export function scopeOf({ base, own, context }: Pick<Standing, 'base' | 'own' | 'context'>): Scope {
  return { payload: { ...base, ...own }, context };
}

/** Whether a branch is over when it would come to this node. */
export function isOver(walk: Walk, next: NodeId | null): boolean {
  return next === null || next === walk.stop;
}

/** Notes how the step went at which the branch is. */
export function take(
  walk: Walk,
  status: StepTaken['status'],
  { kind = walk.node.kind, output = null, error = null, note = null }: Partial<StepTaken> = {},
): void {
  walk.steps.push({ node: walk.node.id, kind, status, output, error, note });
}

/** Payloads may be large, so each is written once. */
export function ownText(walk: Walk): string {
  if (walk.written?.own !== walk.own) {
    walk.written = { own: walk.own, text: JSON.stringify(walk.own) };
  }
  return walk.written.text;
}

/** What every way of standing still has in common. */
export function placeOf(walk: Walk): { node: NodeId; own: JsonObject; isWhole: boolean } {
  return {
    node: walk.node.id,
    own: walk.own,
    isWhole: Object.keys(walk.base).length === 0,
  };
}

export function stand(walk: Walk, landing: Landing): Move {
  // It is no function, so nobody who awaits a move is kept waiting by it.
  return { steps: walk.steps, landing };
}

export function halt(walk: Walk, { reason, message }: PipelineFault): Move {
  return haltWith(walk, reason, message, `step ${walk.node.id}: ${message}`);
}

/** For what has a message that names its step already. */
export function haltWith(walk: Walk, reason: HaltReason, error: string, message = error): Move {
  take(walk, 'failed', { error });
  const place = placeOf(walk);
  return stand(walk, {
    kind: 'halt',
    ...place,
    reason,
    message: message.slice(0, limits.errorCharsMax),
  });
}
