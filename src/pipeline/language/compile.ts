import { limits } from '../../base/limits.ts';
import {
  checkCalls,
  isEndless,
  checkEntry,
  type CompileFault,
  type Library,
  type Resolved,
} from './check.ts';
import type { PipelineEntry, StepEntry, SwitchEntry } from './entry.ts';
import type { Graph, Handler, Node, NodeId, SwitchNode, TaskNode } from './graph.ts';
import { blake3 } from '../../base/blake3.ts';
import { toCanonicalJson } from '../../base/json.ts';

export interface Compiled {
  /** Undefined when there are faults. */
  readonly graph: Graph | undefined;
  readonly faults: readonly CompileFault[];
}

/** Lays called pipelines in and nested lists flat, so that every node knows what follows it. */
export function compile(entry: PipelineEntry, library: Library): Compiled {
  const flaws = [...checkEntry(entry), ...checkCalls(entry, library)];
  if (isEndless(entry, library)) return { graph: undefined, faults: flaws };
  const maker: Maker = { library, nodes: new Map(), faults: flaws, isBroken: false };
  const frame: Frame = { entry, prefix: '' };
  const first = makeList(entry.steps, { list: '', end: null }, frame, maker);
  const onHalt = resolveHandler(entry, maker);
  const { nodes, faults } = maker;
  if (nodes.size > limits.pipelineNodesMax) faults.push({ path: ['steps'], message: TOO_LONG });
  if (faults.length > 0 || maker.isBroken || first === null) return { graph: undefined, faults };
  const { name, maxFanout } = entry;
  const plain = { name, first, nodes: Object.fromEntries(nodes), maxFanout, onHalt };
  return { graph: { ...plain, hash: hashGraph(plain) }, faults };
}

const TOO_LONG = `has more than ${limits.pipelineNodesMax} steps, with those of the pipelines it calls`;

interface Maker {
  readonly library: Library;
  readonly nodes: Map<NodeId, Node>;
  readonly faults: CompileFault[];
  /** Something is missing for which a called pipeline is to blame. */
  isBroken: boolean;
}

/** The pipeline whose steps are laid in, and under which ids. */
interface Frame {
  readonly entry: PipelineEntry;
  readonly prefix: string;
}

interface Around {
  readonly list: string;
  readonly end: NodeId | null;
}

function makeList(
  steps: readonly StepEntry[],
  around: Around,
  frame: Frame,
  maker: Maker,
): NodeId | null {
  // Pipelines that call others twice double with every level.
  if (maker.nodes.size > limits.pipelineNodesMax) return null;
  for (const [index, step] of steps.entries()) {
    const after = steps[index + 1];
    const next = after === undefined ? around.end : entranceOf(after, frame, maker.library);
    makeStep(step, { ...around, next }, frame, maker);
  }
  const [first] = steps;
  return first === undefined ? null : entranceOf(first, frame, maker.library);
}

/** The node at which a step begins: a list without a condition begins with its first step. */
function entranceOf(step: StepEntry, frame: Frame, library: Library): NodeId | null {
  const id = `${frame.prefix}${step.id}`;
  if (step.when !== undefined || (step.mode !== 'steps' && step.mode !== 'call')) return id;
  const inner = innerOf(step, frame, library);
  const [first] = inner?.steps ?? [];
  return first === undefined || inner === undefined
    ? null
    : entranceOf(first, inner.frame, library);
}

/** The steps of a nested list or a called pipeline; undefined when there is no such pipeline. */
function innerOf(
  step: Extract<StepEntry, { mode: 'steps' | 'call' }>,
  frame: Frame,
  { pipelines }: Library,
): { readonly steps: readonly StepEntry[]; readonly frame: Frame } | undefined {
  if (step.mode === 'steps') return { steps: step.steps, frame };
  const entry = pipelines.get(step.call);
  if (entry === undefined) return undefined;
  const prefix = `${frame.prefix}${step.id}/`;
  return { steps: entry.steps, frame: { entry, prefix } };
}

type Place = Around & { readonly next: NodeId | null };

function makeStep(step: StepEntry, place: Place, frame: Frame, maker: Maker): void {
  const id = `${frame.prefix}${step.id}`;
  const { when } = step;
  const leads = { id, ...place, when };
  const add = (node: Node): void => void maker.nodes.set(id, node);
  const body = (steps: readonly StepEntry[]): NodeId | null =>
    makeList(steps, { list: '', end: null }, frame, maker);
  switch (step.mode) {
    case 'uses': {
      const target = resolveUses(step, frame, maker);
      if (target !== undefined) add(makeTask(step, leads, target));
      return;
    }
    case 'steps':
    case 'call':
      makeInner(step, leads, frame, maker);
      return;
    case 'split': {
      // Its place among the nodes is before its arms.
      add({ ...leads, kind: 'split', arms: [] });
      const arms = step.split.map((arm) => ({ label: arm.id, first: body([arm]) ?? '' }));
      add({ ...leads, kind: 'split', arms });
      return;
    }
    case 'foreach': {
      const { items, as, concurrency, maxFanout = frame.entry.maxFanout } = step;
      const node = { ...leads, kind: 'foreach', items, as, concurrency, maxFanout } as const;
      add({ ...node, first: '' });
      add({ ...node, first: body(step.steps) ?? '' });
      return;
    }
    case 'switch':
      makeSwitch(step, leads, frame, maker);
      return;
    case 'approve': {
      const { message, timeoutMs, onTimeout, onError } = step;
      add({ ...leads, kind: 'approve', message, timeoutMs, onTimeout, onError });
      return;
    }
    case 'wait': {
      const { delayMs, until, signal, timeoutMs, onError } = step;
      add({ ...leads, kind: 'wait', delayMs, until, signal, timeoutMs, onError });
    }
  }
}

type Leads = Pick<Node, 'id' | 'next' | 'end' | 'list' | 'when'>;

function makeTask(
  step: Extract<StepEntry, { mode: 'uses' }>,
  leads: Leads,
  { plugin, command, maxAttempts }: Resolved,
): TaskNode {
  return {
    ...leads,
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

/** A nested list needs a node only for its condition: one arm, which is passed by or taken. */
function makeInner(
  step: Extract<StepEntry, { mode: 'steps' | 'call' }>,
  leads: Leads,
  frame: Frame,
  maker: Maker,
): void {
  const inner = innerOf(step, frame, maker.library);
  if (inner === undefined) {
    maker.isBroken = true;
    return;
  }
  const gate = (first: NodeId | null): void => {
    if (step.when === undefined) return;
    const otherwise = { first };
    const node: SwitchNode = { ...leads, kind: 'switch', value: undefined, cases: [], otherwise };
    maker.nodes.set(leads.id, node);
  };
  gate(null);
  gate(makeList(inner.steps, { list: leads.id, end: leads.next }, inner.frame, maker));
}

function makeSwitch(step: SwitchEntry, leads: Leads, frame: Frame, maker: Maker): void {
  const around = { list: leads.id, end: leads.next };
  const arm = (steps: readonly StepEntry[]): NodeId | null => makeList(steps, around, frame, maker);
  const node = { ...leads, kind: 'switch', value: step.value } as const;
  maker.nodes.set(leads.id, { ...node, cases: [], otherwise: undefined });
  const cases = step.cases.map(({ label, when, equals, steps }) => ({
    label,
    when,
    equals,
    first: arm(steps),
  }));
  const otherwise = step.otherwise === undefined ? undefined : { first: arm(step.otherwise) };
  maker.nodes.set(leads.id, { ...node, cases, otherwise });
}

function resolveUses(
  step: Extract<StepEntry, { mode: 'uses' }>,
  { prefix }: Frame,
  maker: Maker,
): Resolved | undefined {
  const target = maker.library.resolve(step.uses);
  if (!('fault' in target)) return target;
  maker.isBroken = true;
  // What a called pipeline gets wrong is said about that pipeline.
  const { fault: message, hint } = target;
  if (prefix === '') maker.faults.push({ path: [...step.path, 'uses'], message, hint });
  return undefined;
}

function resolveHandler(
  { onHalt }: PipelineEntry,
  { library, faults }: Maker,
): Handler | undefined {
  if (onHalt === undefined) return undefined;
  const target = library.resolve(onHalt);
  if (!('fault' in target)) {
    const { plugin, command, maxAttempts } = target;
    return { plugin, command, ...(maxAttempts === undefined ? {} : { maxAttempts }) };
  }
  faults.push({ path: ['on_halt'], message: target.fault, hint: target.hint });
  return undefined;
}

/** Of all that decides what a run does: the same for the same, wherever and whenever it is made. */
function hashGraph(graph: Omit<Graph, 'hash'>): string {
  return blake3(Buffer.from(toCanonicalJson(graph)));
}
