import type { JsonObject } from '../../base/json.ts';
import { advance } from '../run/advance.ts';
import { basePayloadFor, createBranchStarter, requireNode } from '../run/walk.ts';
import type { ApproveNode, Graph, NodeId, TaskNode, WaitNode } from './graph.ts';
import type { Arrival, BranchState, StepRecord, Landing } from '../run/run.ts';
import type { HaltReason } from '../run/halt.ts';

/** A step that needs an outcome to continue, with its input. */
export interface StepQuestion {
  readonly node: TaskNode | ApproveNode | WaitNode;
  /** Indexes from the root down. */
  readonly branch: string;
  /** The whole input of the plugin, or the payload of the branch for a step without a plugin. */
  readonly input: JsonObject;
  readonly message: string | null;
}

/** Returns the outcome of a step, or undefined if the caller didn't specify one. */
export type StepAnswerer = (question: StepQuestion) => Arrival | undefined;

export interface SimulatedStep extends StepRecord {
  readonly branch: string;
  /** The reason why the branch came to this step. */
  readonly why: string;
  readonly input: JsonObject | undefined;
}

/** A step that would run now. Its outcome wasn't specified. */
export interface PendingStep extends Omit<StepQuestion, 'node'> {
  readonly node: NodeId;
  readonly kind: StepQuestion['node']['kind'];
  readonly why: string;
}

export interface SimulatedHalt {
  readonly node: NodeId;
  readonly branch: string;
  readonly reason: HaltReason;
  readonly message: string;
}

export interface Simulation {
  /** `open`: the result depends on an outcome that wasn't specified. */
  readonly status: 'succeeded' | 'halted' | 'open';
  /** JSON text. */
  readonly output: string | undefined;
  readonly steps: readonly SimulatedStep[];
  readonly next: readonly PendingStep[];
  readonly halts: readonly SimulatedHalt[];
  /** True if the simulation stopped at its limits. */
  readonly isCut: boolean;
}

interface SimulationState {
  readonly graph: Graph;
  readonly answer: StepAnswerer;
  readonly stepsMax: number;
  readonly charsMax: number;
  readonly steps: SimulatedStep[];
  readonly next: PendingStep[];
  readonly halts: SimulatedHalt[];
  /** The number of characters that were reported so far. */
  chars: number;
  isCut: boolean;
}

export interface SimulationRequest {
  readonly graph: Graph;
  readonly payload: JsonObject;
  readonly context: JsonObject;
  readonly answer: StepAnswerer;
  /** The maximum number of reported steps, and of characters in their payloads. */
  readonly stepsMax: number;
  readonly charsMax: number;
}

/** Simulates a run with the same state machine as real runs, branch by branch. */
export function simulateRun(request: SimulationRequest): Simulation {
  const { graph, payload, context, ...rest } = request;
  const recorded = { steps: [], next: [], halts: [], chars: 0, isCut: false };
  const simulation: SimulationState = { graph, ...rest, ...recorded };
  const state = { node: graph.first, stop: null, own: payload, base: {}, context };
  const end = simulateBranch(simulation, {
    branch: '0',
    state,
    sent: {},
    why: 'it is the first step',
  });
  const { steps, next, halts, isCut } = simulation;
  const status = end.kind === 'end' ? 'succeeded' : end.kind === 'halt' ? 'halted' : 'open';
  return {
    status: isCut ? 'open' : status,
    output: end.kind === 'end' ? end.output : undefined,
    steps,
    next,
    halts,
    isCut,
  };
}

type BranchEnd = Extract<Landing, { kind: 'end' | 'halt' }> | { readonly kind: 'open' };

interface SimulatedBranch {
  readonly branch: string;
  state: BranchState;
  /** The part of the base that plugins get. */
  sent: JsonObject;
  /** The reason why the branch came to its current step. */
  why: string;
  input?: JsonObject | undefined;
}

function simulateBranch(simulation: SimulationState, simulated: SimulatedBranch): BranchEnd {
  let arrival: Arrival = { kind: 'start' };
  for (;;) {
    const { steps, landing } = advance(simulation.graph, simulated.state, arrival);
    for (const step of steps) recordSimulatedStep(simulation, simulated, step);
    if (landing.kind === 'end') return landing;
    if (landing.kind === 'halt') return recordHalt(simulation, simulated, landing);
    if (simulation.steps.length >= simulation.stepsMax || simulation.chars > simulation.charsMax)
      simulation.isCut = true;
    if (simulation.isCut) return { kind: 'open' };
    simulated.state = {
      ...simulated.state,
      node: landing.node,
      own: landing.own,
      base: landing.isWhole ? {} : simulated.state.base,
      context: (landing.kind === 'task' ? landing.context : undefined) ?? simulated.state.context,
    };
    if (landing.isWhole) simulated.sent = {};
    const next =
      landing.kind === 'open'
        ? simulateBlock(simulation, simulated, landing)
        : askForArrival(simulation, simulated, landing);
    if (next === undefined) return { kind: 'open' };
    arrival = next;
  }
}

/** Skips steps that only wait: the simulation already knows their outcome. */
function recordSimulatedStep(
  simulation: SimulationState,
  simulated: SimulatedBranch,
  step: StepRecord,
): void {
  if (step.status === 'waiting') return;
  simulation.chars += step.output?.length ?? 0;
  const { branch, why, input } = simulated;
  simulation.steps.push({ ...step, branch, why, input: step.kind === 'task' ? input : undefined });
  simulated.input = undefined;
  if (step.status === 'skipped') simulated.why = `${step.node} was skipped`;
  else if (step.kind === 'switch') simulated.why = `${step.node} decided: ${step.note ?? 'it'}`;
  else simulated.why = `it follows ${step.node}`;
}

function recordHalt(
  simulation: SimulationState,
  { branch }: SimulatedBranch,
  landing: Extract<Landing, { kind: 'halt' }>,
): BranchEnd {
  const { node, reason, message } = landing;
  simulation.halts.push({ node, branch, reason, message });
  return landing;
}

function askForArrival(
  simulation: SimulationState,
  simulated: SimulatedBranch,
  landing: Extract<Landing, { kind: 'task' | 'pause' }>,
): Arrival | undefined {
  const node = requireNode(simulation.graph, landing.node);
  if (node.kind !== 'task' && node.kind !== 'approve' && node.kind !== 'wait') return undefined;
  const input = { ...simulated.sent, ...(landing.kind === 'task' ? landing.input : landing.own) };
  const message = landing.kind === 'pause' ? landing.message : null;
  const question = { branch: simulated.branch, input, message };
  simulated.input = input;
  simulation.chars += JSON.stringify(input).length;
  const arrival = simulation.answer({ node, ...question });
  if (arrival === undefined) {
    simulation.next.push({ node: node.id, kind: node.kind, why: simulated.why, ...question });
  }
  return arrival;
}

/** Simulates all branches, even if one of them halts. */
function simulateBlock(
  simulation: SimulationState,
  { branch, state, sent }: SimulatedBranch,
  landing: Extract<Landing, { kind: 'open' }>,
): Arrival | undefined {
  const createStart = createBranchStarter(simulation.graph, state, landing.block, landing.events);
  const basePayload = { ...state.base, ...state.own };
  const sentBase = basePayloadFor(requireNode(simulation.graph, landing.node), {
    ...sent,
    ...state.own,
  });
  const ends: BranchEnd[] = [];
  for (let index = 0; index < landing.width && !simulation.isCut; index += 1) {
    const { node, stop, own, isWhole, label } = createStart(index);
    const base = isWhole ? {} : basePayload;
    const child = { node, stop, own, base, context: state.context };
    const why = `${describeBranch(landing.block, label, index)} of ${landing.node}`;
    const simulated = {
      branch: `${branch}.${index}`,
      state: child,
      sent: isWhole ? {} : sentBase,
      why,
    };
    ends.push(simulateBranch(simulation, simulated));
  }
  const outputs = ends.flatMap((end) => (end.kind === 'end' ? [end.output] : []));
  const halted = ends.find((end) => end.kind === 'halt');
  if (simulation.isCut || ends.some(({ kind }) => kind === 'open')) return undefined;
  if (halted === undefined) return { kind: 'joined', block: landing.block, outputs };
  return { kind: 'failed', reason: halted.reason, error: halted.message, block: landing.block };
}

function describeBranch(block: string, label: string | null, index: number): string {
  if (label !== null) return `arm ${label}`;
  return block === 'events' ? `event ${index}` : `element ${index}`;
}
