import type { JsonObject } from '../../base/json.ts';
import { advance } from '../run/advance.ts';
import { beneathFor, makeBeginner, nodeAt } from '../run/walk.ts';
import type { ApproveNode, Graph, NodeId, TaskNode, WaitNode } from './graph.ts';
import type { Arrival, Standing, StepTaken, Landing } from '../run/transition.ts';
import type { HaltReason } from '../run/run.ts';

/** What a branch stands still for, and with what. */
export interface Question {
  readonly node: TaskNode | ApproveNode | WaitNode;
  /** Indexes from the root down. */
  readonly branch: string;
  /** All that the plugin would get; the payload of the branch where no plugin is asked. */
  readonly input: JsonObject;
  readonly message: string | null;
}

/** What happens then; undefined when nobody said. */
export type Answerer = (question: Question) => Arrival | undefined;

export interface SimulatedStep extends StepTaken {
  readonly branch: string;
  /** How the branch came here. */
  readonly why: string;
  readonly input: JsonObject | undefined;
}

/** A step that would run now, if somebody said how it goes. */
export interface Upcoming extends Omit<Question, 'node'> {
  readonly node: NodeId;
  readonly kind: Question['node']['kind'];
  readonly why: string;
}

export interface SimulatedHalt {
  readonly node: NodeId;
  readonly branch: string;
  readonly reason: HaltReason;
  readonly message: string;
}

export interface Simulation {
  /** `open`: it depends on what nobody said. */
  readonly status: 'succeeded' | 'halted' | 'open';
  /** JSON text. */
  readonly output: string | undefined;
  readonly steps: readonly SimulatedStep[];
  readonly next: readonly Upcoming[];
  readonly halts: readonly SimulatedHalt[];
  /** There was more than was asked for. */
  readonly isCut: boolean;
}

interface Play {
  readonly graph: Graph;
  readonly answer: Answerer;
  readonly stepsMax: number;
  readonly charsMax: number;
  readonly steps: SimulatedStep[];
  readonly next: Upcoming[];
  readonly halts: SimulatedHalt[];
  /** Of all that is told. */
  chars: number;
  isCut: boolean;
}

export interface SimulationRequest {
  readonly graph: Graph;
  readonly payload: JsonObject;
  readonly context: JsonObject;
  readonly answer: Answerer;
  /** How many steps, and how many characters of their payloads, are told of at most. */
  readonly stepsMax: number;
  readonly charsMax: number;
}

/** Plays a run of a pipeline with the machine that moves real ones, branch after branch. */
export function simulate(request: SimulationRequest): Simulation {
  const { graph, payload, context, ...rest } = request;
  const told = { steps: [], next: [], halts: [], chars: 0, isCut: false };
  const play: Play = { graph, ...rest, ...told };
  const standing = { node: graph.first, stop: null, own: payload, base: {}, context };
  const end = playBranch(play, { branch: '0', standing, sent: {}, why: 'it is the first step' });
  const { steps, next, halts, isCut } = play;
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

type End = Extract<Landing, { kind: 'end' | 'halt' }> | { readonly kind: 'open' };

interface Seat {
  readonly branch: string;
  standing: Standing;
  /** What plugins get of its base. */
  sent: JsonObject;
  /** How it came to where it stands. */
  why: string;
  input?: JsonObject | undefined;
}

function playBranch(play: Play, seat: Seat): End {
  let arrival: Arrival = { kind: 'start' };
  for (;;) {
    const { steps, landing } = advance(play.graph, seat.standing, arrival);
    for (const step of steps) note(play, seat, step);
    if (landing.kind === 'end') return landing;
    if (landing.kind === 'halt') return haltAt(play, seat, landing);
    if (play.steps.length >= play.stepsMax || play.chars > play.charsMax) play.isCut = true;
    if (play.isCut) return { kind: 'open' };
    seat.standing = {
      ...seat.standing,
      node: landing.node,
      own: landing.own,
      base: landing.isWhole ? {} : seat.standing.base,
      context: (landing.kind === 'task' ? landing.context : undefined) ?? seat.standing.context,
    };
    if (landing.isWhole) seat.sent = {};
    const came =
      landing.kind === 'open' ? playBlock(play, seat, landing) : ask(play, seat, landing);
    if (came === undefined) return { kind: 'open' };
    arrival = came;
  }
}

/** What it waited for is known by now, so a step that only waits is not told of. */
function note(play: Play, seat: Seat, step: StepTaken): void {
  if (step.status === 'waiting') return;
  play.chars += step.output?.length ?? 0;
  const { branch, why, input } = seat;
  play.steps.push({ ...step, branch, why, input: step.kind === 'task' ? input : undefined });
  seat.input = undefined;
  if (step.status === 'skipped') seat.why = `${step.node} was passed over`;
  else if (step.kind === 'switch') seat.why = `${step.node} took ${step.note ?? 'it'}`;
  else seat.why = `it follows ${step.node}`;
}

function haltAt(play: Play, { branch }: Seat, landing: Extract<Landing, { kind: 'halt' }>): End {
  const { node, reason, message } = landing;
  play.halts.push({ node, branch, reason, message });
  return landing;
}

function ask(
  play: Play,
  seat: Seat,
  landing: Extract<Landing, { kind: 'task' | 'pause' }>,
): Arrival | undefined {
  const node = nodeAt(play.graph, landing.node);
  if (node.kind !== 'task' && node.kind !== 'approve' && node.kind !== 'wait') return undefined;
  const input = { ...seat.sent, ...(landing.kind === 'task' ? landing.input : landing.own) };
  const message = landing.kind === 'pause' ? landing.message : null;
  const asked = { branch: seat.branch, input, message };
  seat.input = input;
  play.chars += JSON.stringify(input).length;
  const arrival = play.answer({ node, ...asked });
  if (arrival === undefined) {
    play.next.push({ node: node.id, kind: node.kind, why: seat.why, ...asked });
  }
  return arrival;
}

/** All branches are played, whatever becomes of their siblings. */
function playBlock(
  play: Play,
  { branch, standing, sent }: Seat,
  landing: Extract<Landing, { kind: 'open' }>,
): Arrival | undefined {
  const begin = makeBeginner(play.graph, standing, landing.block, landing.events);
  const beneath = { ...standing.base, ...standing.own };
  const sentBeneath = beneathFor(nodeAt(play.graph, landing.node), { ...sent, ...standing.own });
  const ends: End[] = [];
  for (let index = 0; index < landing.width && !play.isCut; index += 1) {
    const { node, stop, own, isWhole, label } = begin(index);
    const base = isWhole ? {} : beneath;
    const child = { node, stop, own, base, context: standing.context };
    const why = `${nameOf(landing.block, label, index)} of ${landing.node}`;
    const seat = {
      branch: `${branch}.${index}`,
      standing: child,
      sent: isWhole ? {} : sentBeneath,
      why,
    };
    ends.push(playBranch(play, seat));
  }
  const outputs = ends.flatMap((end) => (end.kind === 'end' ? [end.output] : []));
  const halted = ends.find((end) => end.kind === 'halt');
  if (play.isCut || ends.some(({ kind }) => kind === 'open')) return undefined;
  if (halted === undefined) return { kind: 'joined', block: landing.block, outputs };
  return { kind: 'failed', reason: halted.reason, error: halted.message, block: landing.block };
}

function nameOf(block: string, label: string | null, index: number): string {
  if (label !== null) return `arm ${label}`;
  return block === 'events' ? `event ${index}` : `element ${index}`;
}
