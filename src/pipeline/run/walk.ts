import { limits } from '../../base/limits.ts';
import { isObject, type JsonObject, type Json } from '../../base/json.ts';
import { PipelineFault, type HaltReason } from './halt.ts';
import type {
  BranchState,
  Landing,
  Transition,
  StepRecord,
  BranchStart,
  BlockKind,
} from './run.ts';
import type { Graph, Node, NodeId } from '../language/graph.ts';
import { renderTemplate, type Scope, type ValuePath } from '../language/template.ts';
import { evaluateCondition } from '../language/condition.ts';

/** The state of a branch while it goes from node to node. */
export interface Walk {
  readonly graph: Graph;
  readonly stop: NodeId | null;
  readonly steps: StepRecord[];
  node: Node;
  own: JsonObject;
  base: JsonObject;
  context: JsonObject;
  /** The last serialized value of `own`, and its text. */
  written: { readonly own: JsonObject; readonly text: string } | undefined;
}

export function beginWalk(graph: Graph, state: BranchState): Walk {
  const { stop, own, base, context } = state;
  const node = requireNode(graph, state.node);
  return { graph, stop, steps: [], node, own, base, context, written: undefined };
}

export function requireNode(graph: Graph, id: NodeId): Node {
  const node = graph.nodes[id];
  if (node === undefined) throw new Error(`the pipeline ${graph.name} has no step ${id}`);
  return node;
}

export function toScope({
  base,
  own,
  context,
}: Pick<BranchState, 'base' | 'own' | 'context'>): Scope {
  return { payload: { ...base, ...own }, context };
}

/** Returns the key of a step's output in the payload: its id without the prefix of a call. */
export function payloadKeyOf(id: NodeId): string {
  return id.slice(id.lastIndexOf('/') + 1);
}

/** True if the branch ends before this node. */
export function isBranchEnd(walk: Walk, next: NodeId | null): boolean {
  return next === null || next === walk.stop;
}

/** Records the result of the current step. */
export function recordStep(
  walk: Walk,
  status: StepRecord['status'],
  { kind = walk.node.kind, output = null, error = null, note = null }: Partial<StepRecord> = {},
): void {
  walk.steps.push({ node: walk.node.id, kind, status, output, error, note });
}

/** Serializes each payload once, because it can be large. */
export function formatOwnPayload(walk: Walk): string {
  if (walk.written?.own !== walk.own) {
    walk.written = { own: walk.own, text: JSON.stringify(walk.own) };
  }
  return walk.written.text;
}

/** The fields that every kind of stop needs. */
export function positionOf(walk: Walk): { node: NodeId; own: JsonObject; isWhole: boolean } {
  return {
    node: walk.node.id,
    own: walk.own,
    isWhole: Object.keys(walk.base).length === 0,
  };
}

export function createTransition(walk: Walk, landing: Landing): Transition {
  // Not a promise, so that callers don't wait for a microtask.
  return { steps: walk.steps, landing };
}

export function haltWalk(walk: Walk, { reason, message }: PipelineFault): Transition {
  return haltWalkWith(walk, reason, message, `step ${walk.node.id}: ${message}`);
}

/** For messages that already name their step. */
export function haltWalkWith(
  walk: Walk,
  reason: HaltReason,
  error: string,
  message = error,
): Transition {
  recordStep(walk, 'failed', { error });
  return createTransition(walk, {
    kind: 'halt',
    ...positionOf(walk),
    reason,
    message: message.slice(0, limits.errorCharsMax),
  });
}

type BlockParent = Pick<BranchState, 'node' | 'own' | 'base' | 'context'>;

/** Counts the branches of the block at a node. */
export function countBranches(
  graph: Graph,
  parent: BlockParent,
  block: BlockKind,
  events?: readonly Json[],
): number {
  if (block === 'events') return (events ?? []).length;
  const node = requireNode(graph, parent.node);
  if (node.kind === 'split') return node.arms.length;
  return itemsOf(graph, parent).length;
}

/** Returns a function that creates the start of each branch. Shared values are computed once. */
export function createBranchStarter(
  graph: Graph,
  parent: BlockParent,
  block: BlockKind,
  events?: readonly Json[],
): (index: number) => BranchStart {
  const node = requireNode(graph, parent.node);
  if (block === 'events') {
    const { next, end } = node;
    if (next === null) throw new Error(`nothing follows step ${node.id}`);
    return (index) => ({
      node: next,
      stop: end,
      label: null,
      own: toStepPayload(at(events ?? [], index)),
      isWhole: true,
    });
  }
  const common = { stop: null, isWhole: false };
  if (node.kind === 'split') {
    return (index) => {
      const { label, first } = at(node.arms, index);
      return { ...common, node: first, label, own: {} };
    };
  }
  if (node.kind !== 'foreach') throw new Error(`step ${node.id} is not a block`);
  const items = itemsOf(graph, parent);
  const { as, first } = node;
  return (index) => ({
    ...common,
    node: first,
    label: null,
    own: { [as]: at(items, index), index },
  });
}

/**
 * Removes the list of a `foreach` from the base payload. Each branch has its own element, and
 * sending the whole list with every element would take quadratic space.
 */
export function basePayloadFor(node: Node, payload: JsonObject): JsonObject {
  if (node.kind !== 'foreach' || !('ref' in node.items)) return payload;
  const [root, ...path] = node.items.ref;
  return root === 'payload' ? omitPath(payload, path) : payload;
}

function omitPath(payload: JsonObject, [key, ...path]: ValuePath): JsonObject {
  const inner = key === undefined ? undefined : payload[key];
  if (key === undefined || inner === undefined) return payload;
  const { [key]: _, ...rest } = payload;
  if (path.length === 0) return rest;
  return isObject(inner) ? { ...payload, [key]: omitPath(inner, path) } : payload;
}

/** Converts an event to the payload of the next step. */
export function toStepPayload(event: Json): JsonObject {
  return isObject(event) ? event : { value: event };
}

function itemsOf(graph: Graph, parent: BlockParent): readonly Json[] {
  const node = requireNode(graph, parent.node);
  if (node.kind !== 'foreach') throw new Error(`step ${node.id} is not a foreach`);
  const items = renderTemplate(node.items, toScope(parent));
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
 * True if a branch waits for this signal. A condition that can't be evaluated means no: any sender
 * can emit such a signal, so it must not halt the branch.
 */
export function isAwaitedSignal(graph: Graph, state: BranchState, signal: AwaitedSignal): boolean {
  const node = requireNode(graph, state.node);
  if (node.kind !== 'wait' || node.signal === undefined) return false;
  const { type, from, when } = node.signal;
  if (type !== signal.type || (from !== undefined && from !== signal.source)) return false;
  if (when === undefined) return true;
  try {
    return evaluateCondition(when, { ...toScope(state), signal: signal.data });
  } catch (thrown) {
    if (thrown instanceof PipelineFault) return false;
    throw thrown;
  }
}

const SIGNAL_NOTE = 'signal ';

/** The note of a wait that a signal ended. */
export function formatSignalNote(signalId: string): string {
  return `${SIGNAL_NOTE}${signalId}`;
}

/** Finds the signal that ended a wait. */
export function parseSignalNote(note: string | null): string | undefined {
  return note?.startsWith(SIGNAL_NOTE) === true ? note.slice(SIGNAL_NOTE.length) : undefined;
}
