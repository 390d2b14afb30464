import type { Json, JsonObject } from '../../src/base/json.ts';
import type { Graph, Node, NodeId } from '../../src/pipeline/language/graph.ts';
import type { Arrival, Transition, BranchState } from '../../src/pipeline/run/run.ts';
import type { Template } from '../../src/pipeline/language/template.ts';

/** Creates nodes of each kind with defaults. By default, `next` and `end` lead to the end. */
type Usual<K extends Node['kind']> = Partial<Extract<Node, { kind: K }>>;

const leads = { next: null, end: null, list: '', when: undefined };

export function task(id: NodeId, rest: Usual<'task'> = {}): Node {
  return {
    ...leads,
    kind: 'task',
    id,
    plugin: id,
    command: 'handle',
    with: undefined,
    baggage: undefined,
    maxAttempts: undefined,
    backoffBaseMs: undefined,
    timeoutMs: undefined,
    onError: 'halt',
    ...rest,
  };
}

export function split(id: NodeId, labels: readonly string[], rest: Usual<'split'> = {}): Node {
  return {
    ...leads,
    kind: 'split',
    id,
    arms: labels.map((label) => ({ label, first: label })),
    ...rest,
  };
}

export function foreach(id: NodeId, first: NodeId, rest: Usual<'foreach'> = {}): Node {
  return {
    ...leads,
    kind: 'foreach',
    id,
    items: ref('payload.items'),
    as: 'item',
    first,
    concurrency: undefined,
    maxFanout: 1000,
    ...rest,
  };
}

export function choice(
  id: NodeId,
  cases: Readonly<Record<string, NodeId | null>>,
  rest: Usual<'switch'> = {},
): Node {
  return {
    ...leads,
    kind: 'switch',
    id,
    value: ref('payload.kind'),
    cases: Object.entries(cases).map(([label, first]) => ({
      label,
      when: undefined,
      equals: label,
      first,
    })),
    otherwise: undefined,
    ...rest,
  };
}

export function approve(id: NodeId, rest: Usual<'approve'> = {}): Node {
  return {
    ...leads,
    kind: 'approve',
    id,
    message: undefined,
    timeoutMs: undefined,
    onTimeout: 'halt',
    onError: 'halt',
    ...rest,
  };
}

export function wait(id: NodeId, rest: Usual<'wait'> = {}): Node {
  return {
    ...leads,
    kind: 'wait',
    id,
    delayMs: undefined,
    until: undefined,
    signal: undefined,
    timeoutMs: undefined,
    onError: 'halt',
    ...rest,
  };
}

export function ref(path: string): Template {
  return { ref: path.split('.') };
}

/** The graph starts with the first node. */
export function graph(nodes: readonly Node[], rest: Partial<Graph> = {}): Graph {
  return {
    name: 'flow',
    hash: 'blake3:0',
    first: nodes[0]?.id ?? '',
    nodes: Object.fromEntries(nodes.map((node) => [node.id, node])),
    maxFanout: 1000,
    onHalt: undefined,
    ...rest,
  };
}

export function at(
  node: NodeId,
  own: JsonObject = {},
  rest: Partial<BranchState> = {},
): BranchState {
  return { node, stop: null, own, base: {}, context: {}, ...rest };
}

export function done(result: Json = null): Arrival {
  return { kind: 'done', events: [], result };
}

export function emitted(...events: Json[]): Arrival {
  return { kind: 'done', events, result: null };
}

export const start: Arrival = { kind: 'start' };
export const NOON = '2026-11-16T12:00:00.000Z';

/** Lists each step with its status. */
export function statuses({ steps }: Transition): string[] {
  return steps.map(({ node, status }) => `${node} ${status}`);
}

/** The result of an ended branch. */
export function output({ landing }: Transition): Json | undefined {
  return landing.kind === 'end' ? (JSON.parse(landing.output) as Json) : undefined;
}
