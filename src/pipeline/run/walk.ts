import { limits } from '../../base/limits.ts';
import { isObject, type JsonObject, type Json } from '../../base/json.ts';
import { PipelineFault, type HaltReason } from './run.ts';
import type { Graph, Node, NodeId } from '../language/graph.ts';
import type { Move, Standing, StepTaken, Landing, Beginning, BlockKind } from './transition.ts';
import { render, type Scope, type Path } from '../language/template.ts';
import { evaluate } from '../language/condition.ts';

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

interface AwaitedSignal {
  readonly type: string;
  readonly source: string;
  readonly data: Json;
}

/**
 * Whether a signal is the one that a branch waits for. One that its condition cannot judge is of
 * another shape than the one that was meant: anybody can send it, so it must not halt the branch.
 */
export function isAwaited(graph: Graph, standing: Standing, signal: AwaitedSignal): boolean {
  const node = nodeAt(graph, standing.node);
  if (node.kind !== 'wait' || node.signal === undefined) return false;
  const { type, from, when } = node.signal;
  if (type !== signal.type || (from !== undefined && from !== signal.source)) return false;
  if (when === undefined) return true;
  try {
    return evaluate(when, { ...scopeOf(standing), signal: signal.data });
  } catch (thrown) {
    if (thrown instanceof PipelineFault) return false;
    throw thrown;
  }
}

const TAKEN = 'signal ';

/** What is noted of a wait that a signal has ended. */
export function noteOfSignal(signalId: string): string {
  return `${TAKEN}${signalId}`;
}

/** The signal that has ended the wait of which this was noted. */
export function signalTakenIn(note: string | null): string | undefined {
  return note?.startsWith(TAKEN) === true ? note.slice(TAKEN.length) : undefined;
}
