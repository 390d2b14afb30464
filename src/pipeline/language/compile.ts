import { limits } from '../../base/limits.ts';
import {
  checkCalls,
  hasEndlessCalls,
  checkPipelineEntry,
  type CompileFault,
  type PipelineLibrary,
  type ResolvedCommand,
} from './check.ts';
import type { PipelineEntry, StepEntry, SwitchEntry } from './entry.ts';
import type { Graph, Handler, Node, NodeId, SwitchNode, TaskNode } from './graph.ts';
import { blake3 } from '../../base/blake3.ts';
import { compact, toCanonicalJson } from '../../base/json.ts';

export interface CompileResult {
  /** Undefined if there are faults. */
  readonly graph: Graph | undefined;
  readonly faults: readonly CompileFault[];
}

/** Inlines called pipelines and flattens nested lists, so that every node knows its successor. */
export function compilePipeline(entry: PipelineEntry, library: PipelineLibrary): CompileResult {
  const faults = [...checkPipelineEntry(entry), ...checkCalls(entry, library)];
  if (hasEndlessCalls(entry, library)) return { graph: undefined, faults };
  const builder: GraphBuilder = { library, nodes: new Map(), faults, isBroken: false };
  const frame: Frame = { entry, prefix: '' };
  const first = addList(entry.steps, { list: '', end: null }, frame, builder);
  const onHalt = resolveHandler(entry, builder);
  const { nodes } = builder;
  if (nodes.size > limits.pipelineNodesMax) faults.push({ path: ['steps'], message: TOO_LONG });
  if (faults.length > 0 || builder.isBroken || first === null) return { graph: undefined, faults };
  const { name, maxFanout } = entry;
  const plain = { name, first, nodes: Object.fromEntries(nodes), maxFanout, onHalt };
  return { graph: { ...plain, hash: hashGraph(plain) }, faults };
}

const TOO_LONG = `has more than ${limits.pipelineNodesMax} steps, with those of called pipelines`;

interface GraphBuilder {
  readonly library: PipelineLibrary;
  readonly nodes: Map<NodeId, Node>;
  readonly faults: CompileFault[];
  /** True if a called pipeline is incomplete. That pipeline reports the fault. */
  isBroken: boolean;
}

/** The pipeline whose steps are inlined, and the prefix of their ids. */
interface Frame {
  readonly entry: PipelineEntry;
  readonly prefix: string;
}

interface ListPosition {
  readonly list: string;
  readonly end: NodeId | null;
}

function addList(
  steps: readonly StepEntry[],
  around: ListPosition,
  frame: Frame,
  builder: GraphBuilder,
): NodeId | null {
  // Pipelines that call others twice double with every level.
  if (builder.nodes.size > limits.pipelineNodesMax) return null;
  for (const [index, step] of steps.entries()) {
    const after = steps[index + 1];
    const next = after === undefined ? around.end : findEntrance(after, frame, builder.library);
    addStep(step, { ...around, next }, frame, builder);
  }
  const [first] = steps;
  return first === undefined ? null : findEntrance(first, frame, builder.library);
}

/** Finds the first node of a step. For a list without a condition, it is that of its first step. */
function findEntrance(step: StepEntry, frame: Frame, library: PipelineLibrary): NodeId | null {
  const id = `${frame.prefix}${step.id}`;
  if (step.when !== undefined || (step.mode !== 'steps' && step.mode !== 'call')) return id;
  const inner = innerOf(step, frame, library);
  const [first] = inner?.steps ?? [];
  return first === undefined || inner === undefined
    ? null
    : findEntrance(first, inner.frame, library);
}

/**
 * Returns the steps of a nested list or a called pipeline, or undefined if that pipeline doesn't
 * exist.
 */
function innerOf(
  step: Extract<StepEntry, { mode: 'steps' | 'call' }>,
  frame: Frame,
  { pipelines }: PipelineLibrary,
): { readonly steps: readonly StepEntry[]; readonly frame: Frame } | undefined {
  if (step.mode === 'steps') return { steps: step.steps, frame };
  const entry = pipelines.get(step.call);
  if (entry === undefined) return undefined;
  const prefix = `${frame.prefix}${step.id}/`;
  return { steps: entry.steps, frame: { entry, prefix } };
}

type StepPosition = ListPosition & { readonly next: NodeId | null };

function addStep(
  step: StepEntry,
  position: StepPosition,
  frame: Frame,
  builder: GraphBuilder,
): void {
  const id = `${frame.prefix}${step.id}`;
  const { when } = step;
  const links = { id, ...position, when };
  const add = (node: Node): void => void builder.nodes.set(id, node);
  const body = (steps: readonly StepEntry[]): NodeId | null =>
    addList(steps, { list: '', end: null }, frame, builder);
  switch (step.mode) {
    case 'uses': {
      const target = resolveUses(step, frame, builder);
      if (target !== undefined) add(createTask(step, links, target));
      return;
    }
    case 'steps':
    case 'call':
      addInnerList(step, links, frame, builder);
      return;
    case 'split': {
      // Added first, so that the split comes before its arms in the order of nodes.
      add({ ...links, kind: 'split', arms: [] });
      const arms = step.split.map((arm) => ({ label: arm.id, first: body([arm]) ?? '' }));
      add({ ...links, kind: 'split', arms });
      return;
    }
    case 'foreach': {
      const { items, as, concurrency, maxFanout = frame.entry.maxFanout } = step;
      const node = { ...links, kind: 'foreach', items, as, concurrency, maxFanout } as const;
      add({ ...node, first: '' });
      add({ ...node, first: body(step.steps) ?? '' });
      return;
    }
    case 'switch':
      addSwitch(step, links, frame, builder);
      return;
    case 'approve': {
      const { message, timeoutMs, onTimeout, onError } = step;
      add({ ...links, kind: 'approve', message, timeoutMs, onTimeout, onError });
      return;
    }
    case 'wait': {
      const { delayMs, until, signal, timeoutMs, onError } = step;
      add({ ...links, kind: 'wait', delayMs, until, signal, timeoutMs, onError });
    }
  }
}

type StepLinks = Pick<Node, 'id' | 'next' | 'end' | 'list' | 'when'>;

function createTask(
  step: Extract<StepEntry, { mode: 'uses' }>,
  links: StepLinks,
  { plugin, command, maxAttempts }: ResolvedCommand,
): TaskNode {
  return {
    ...links,
    kind: 'task',
    plugin,
    command,
    with: step.with,
    baggage: step.baggage,
    dependency: step.dependency,
    maxAttempts: step.maxAttempts ?? maxAttempts,
    backoffBaseMs: step.backoffBaseMs,
    timeoutMs: step.timeoutMs,
    onError: step.onError,
  };
}

/** A nested list needs a node only for its condition: a switch with one arm. */
function addInnerList(
  step: Extract<StepEntry, { mode: 'steps' | 'call' }>,
  links: StepLinks,
  frame: Frame,
  builder: GraphBuilder,
): void {
  const inner = innerOf(step, frame, builder.library);
  if (inner === undefined) {
    builder.isBroken = true;
    return;
  }
  const addCondition = (first: NodeId | null): void => {
    if (step.when === undefined) return;
    const otherwise = { first };
    const node: SwitchNode = { ...links, kind: 'switch', value: undefined, cases: [], otherwise };
    builder.nodes.set(links.id, node);
  };
  addCondition(null);
  addCondition(addList(inner.steps, { list: links.id, end: links.next }, inner.frame, builder));
}

function addSwitch(step: SwitchEntry, links: StepLinks, frame: Frame, builder: GraphBuilder): void {
  const around = { list: links.id, end: links.next };
  const arm = (steps: readonly StepEntry[]): NodeId | null =>
    addList(steps, around, frame, builder);
  const node = { ...links, kind: 'switch', value: step.value } as const;
  builder.nodes.set(links.id, { ...node, cases: [], otherwise: undefined });
  const cases = step.cases.map(({ label, when, equals, steps }) => ({
    label,
    when,
    equals,
    first: arm(steps),
  }));
  const otherwise = step.otherwise === undefined ? undefined : { first: arm(step.otherwise) };
  builder.nodes.set(links.id, { ...node, cases, otherwise });
}

function resolveUses(
  step: Extract<StepEntry, { mode: 'uses' }>,
  { prefix }: Frame,
  builder: GraphBuilder,
): ResolvedCommand | undefined {
  const target = builder.library.resolve(step.uses);
  if (!('fault' in target)) return target;
  builder.isBroken = true;
  // A called pipeline reports its own faults.
  const { fault: message, hint } = target;
  if (prefix === '') builder.faults.push({ path: [...step.path, 'uses'], message, hint });
  return undefined;
}

function resolveHandler(
  { onHalt }: PipelineEntry,
  { library, faults }: GraphBuilder,
): Handler | undefined {
  if (onHalt === undefined) return undefined;
  const target = library.resolve(onHalt);
  if (!('fault' in target)) {
    const { plugin, command, maxAttempts } = target;
    return { plugin, command, ...compact({ maxAttempts }) };
  }
  faults.push({ path: ['on_halt'], message: target.fault, hint: target.hint });
  return undefined;
}

/** Hashes everything that decides what a run does. Equal graphs have equal hashes on every host. */
function hashGraph(graph: Omit<Graph, 'hash'>): string {
  return blake3(Buffer.from(toCanonicalJson(graph)));
}
