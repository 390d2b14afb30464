import { limits } from '../../base/limits.ts';
import type { Json, JsonObject } from '../../base/json.ts';
import { parseJson } from '../../base/parse-json.ts';
import {
  toStepPayload,
  countBranches,
  formatSignalNote,
  beginWalk,
  haltWalk,
  haltWalkWith,
  isBranchEnd,
  formatOwnPayload,
  createTransition,
  recordStep,
  requireNode,
  positionOf,
  toScope,
  type Walk,
  payloadKeyOf,
} from './walk.ts';
import { PipelineFault } from './halt.ts';
import type { BranchState, Landing, Transition, Arrival, BlockKind } from './run.ts';
import type {
  ApproveNode,
  Graph,
  NodeId,
  TaskNode,
  ForeachNode,
  SplitNode,
  SwitchNode,
  WaitNode,
} from '../language/graph.ts';
import { toTimestamp } from '../../base/clock.ts';
import { extendBaggage } from '../language/baggage.ts';
import { evaluateCondition, matchesCase } from '../language/condition.ts';
import { findDependencyFault } from '../language/entry-fields.ts';
import { renderTemplate, type Template } from '../language/template.ts';

/**
 * Computes what follows for a branch: the steps that it takes, and where it stops again. Pure:
 * equal arguments have equal results.
 */
export function advance(graph: Graph, state: BranchState, arrival: Arrival): Transition {
  const walk = beginWalk(graph, state);
  try {
    return applyArrival(walk, arrival);
  } catch (thrown) {
    if (!(thrown instanceof PipelineFault)) throw thrown;
    return haltWalk(walk, thrown);
  }
}

function applyArrival(walk: Walk, arrival: Arrival): Transition {
  if (arrival.kind === 'start') return walkTo(walk, walk.node.id);
  if (arrival.kind === 'done') return applyDone(walk, arrival);
  if (arrival.kind === 'failed') return applyFailed(walk, arrival);
  if (arrival.kind === 'joined') return applyJoined(walk, arrival.block, arrival.outputs);
  if (arrival.kind === 'due') return applyDue(walk, arrival.at);
  if (arrival.kind === 'decided') return applyDecided(walk, arrival);
  if (walk.node.kind !== 'wait') throw unexpectedArrival(walk, arrival.kind);
  return proceed(walk, arrival.data, formatSignalNote(arrival.signalId));
}

function applyDone(walk: Walk, { events, result }: Extract<Arrival, { kind: 'done' }>): Transition {
  const { node } = walk;
  if (node.kind !== 'task') throw unexpectedArrival(walk, 'done');
  const [event, ...more] = events;
  if (more.length > 0) return applySeveralEvents(walk, node, events);
  if (event === undefined) walk.own = { ...walk.own, result };
  else {
    walk.own = toStepPayload(event);
    walk.base = {};
  }
  recordStep(walk, 'succeeded', { output: formatOwnPayload(walk) });
  return walkTo(walk, node.next);
}

/** The rest of the list runs once per event. Without a rest, the events are the outputs. */
function applySeveralEvents(walk: Walk, node: TaskNode, events: readonly Json[]): Transition {
  const outputs = events.map((event) => JSON.stringify(toStepPayload(event)));
  const note = `${events.length} events`;
  if (node.next === node.end) {
    return joinEvents(walk, outputs, { kind: 'task', note });
  }
  const landing = openBlock(walk, node, 'events', events);
  recordStep(walk, 'succeeded', { output: listText(outputs), note });
  return createTransition(walk, landing);
}

function applyFailed(
  walk: Walk,
  { reason, error, block }: Extract<Arrival, { kind: 'failed' }>,
): Transition {
  const { node } = walk;
  if (block !== undefined) return haltWalkWith(walk, reason, error);
  // A failure of the advancement itself isn't a failure of the step.
  const isOwn = !reason.startsWith('advancement_');
  if (node.kind !== 'task' || node.onError === 'halt' || !isOwn) {
    throw new PipelineFault(error, reason);
  }
  walk.own = { ...walk.own, error: { reason, message: error } };
  recordStep(walk, 'failed', { output: formatOwnPayload(walk), error, note: 'on_error: continue' });
  return walkTo(walk, node.next);
}

function applyJoined(walk: Walk, block: BlockKind, outputs: readonly string[]): Transition {
  const { node } = walk;
  if (block === 'events') return joinEvents(walk, outputs, { kind: 'events', note: null });
  if (node.kind === 'foreach')
    return joinOutputs(walk, payloadKeyOf(node.id), listText(outputs), node.next);
  if (node.kind !== 'split') throw unexpectedArrival(walk, 'joined');
  const arms = node.arms.map(
    ({ label }, index) => `${JSON.stringify(label)}:${outputs[index] ?? 'null'}`,
  );
  return joinOutputs(walk, payloadKeyOf(node.id), `{${arms.join(',')}}`, node.next);
}

type StepFields = NonNullable<Parameters<typeof recordStep>[2]>;

function joinEvents(walk: Walk, outputs: readonly string[], fields: StepFields): Transition {
  const { end, list } = walk.node;
  const text = listText(outputs);
  if (!isBranchEnd(walk, end)) return joinOutputs(walk, payloadKeyOf(list), text, end, fields);
  checkSize(text, limits.runOutputBytesMax);
  recordStep(walk, 'succeeded', { ...fields, output: text });
  return createTransition(walk, { kind: 'end', output: text });
}

/** Stores the outputs of a block under its key. They stay text until a step reads them. */
function joinOutputs(
  walk: Walk,
  key: string,
  text: string,
  next: NodeId | null,
  fields: StepFields = {},
): Transition {
  if (isBranchEnd(walk, next)) {
    checkSize(text, limits.runOutputBytesMax);
    const output = withText(walk, key, text);
    recordStep(walk, 'succeeded', { ...fields, output });
    return createTransition(walk, { kind: 'end', output });
  }
  checkSize(text, limits.payloadBytesMax);
  walk.own = { ...walk.own, [key]: parseJson(text) as Json };
  recordStep(walk, 'succeeded', { ...fields, output: formatOwnPayload(walk) });
  return walkTo(walk, next);
}

function applyDue(walk: Walk, at: string): Transition {
  const { node } = walk;
  if (node.kind === 'approve') {
    if (node.onTimeout === 'halt') {
      throw new PipelineFault('no decision was made in time', 'timeout');
    }
    const approved = node.onTimeout === 'approve';
    return applyDecision(walk, node, { approved, by: 'deadline', at, why: null });
  }
  if (node.kind !== 'wait') throw unexpectedArrival(walk, 'due');
  if (node.signal === undefined) {
    recordStep(walk, 'succeeded', { output: formatOwnPayload(walk) });
    return walkTo(walk, node.next);
  }
  const message = `no signal ${node.signal.type} came in time`;
  if (node.onError === 'halt') throw new PipelineFault(message, 'timeout');
  walk.own = { ...walk.own, [payloadKeyOf(node.id)]: null };
  recordStep(walk, 'failed', {
    output: formatOwnPayload(walk),
    error: message,
    note: 'on_error: continue',
  });
  return walkTo(walk, node.next);
}

function applyDecided(
  walk: Walk,
  { approved, by, at, why }: Extract<Arrival, { kind: 'decided' }>,
): Transition {
  if (walk.node.kind !== 'approve') throw unexpectedArrival(walk, 'decided');
  return applyDecision(walk, walk.node, { approved, by, at, why });
}

function applyDecision(
  walk: Walk,
  node: ApproveNode,
  decision: { approved: boolean; by: string; at: string; why: string | null },
): Transition {
  const { approved, by, why } = decision;
  const note = `${approved ? 'approved' : 'rejected'} by ${by}${why === null ? '' : `: ${why}`}`;
  if (!approved && node.onError === 'halt') throw new PipelineFault(note, 'rejected');
  return proceed(walk, decision, note);
}

/** Continues with the value that the branch waited for. */
function proceed(walk: Walk, value: Json, note: string): Transition {
  walk.own = { ...walk.own, [payloadKeyOf(walk.node.id)]: value };
  recordStep(walk, 'succeeded', { output: formatOwnPayload(walk), note });
  return walkTo(walk, walk.node.next);
}

function withText(walk: Walk, key: string, text: string): string {
  const { [key]: _replaced, ...rest } = walk.own;
  const before = JSON.stringify(rest).slice(0, -1);
  return `${before}${before === '{' ? '' : ','}${JSON.stringify(key)}:${text}}`;
}

function listText(outputs: readonly string[]): string {
  return `[${outputs.join(',')}]`;
}

function checkSize(text: string, bytesMax: number): void {
  const bytes = Buffer.byteLength(text);
  if (bytes > bytesMax) {
    throw new PipelineFault(`its outputs have ${bytes} bytes together; ${bytesMax} are allowed`);
  }
}

/**
 * The ledger and the graph contradict each other. This is a defect of Ductile, not of the pipeline.
 */
function unexpectedArrival(walk: Walk, kind: Arrival['kind']): Error {
  return new Error(`a branch at the ${walk.node.kind} ${walk.node.id} cannot be ${kind}`);
}

/** Later times would not sort as text. */
const LAST_MOMENT_MS = Date.UTC(9999, 11, 31);

const EXCERPT_CHARS = 200;

/** Goes from node to node until the branch has to stop. */
function walkTo(walk: Walk, to: NodeId | null): Transition {
  let next = to;
  while (next !== null && next !== walk.stop) {
    const result = enter(walk, next);
    if (typeof result === 'object' && result !== null) return createTransition(walk, result);
    next = result;
  }
  return createTransition(walk, { kind: 'end', output: formatOwnPayload(walk) });
}

/** Returns where the branch stops, or the next node. */
function enter(walk: Walk, id: NodeId): Landing | NodeId | null {
  const node = requireNode(walk.graph, id);
  walk.node = node;
  const { when } = node;
  if (when !== undefined && !withPartName('if', () => evaluateCondition(when, toScope(walk)))) {
    recordStep(walk, 'skipped', { note: 'its condition does not hold' });
    return node.next;
  }
  if (node.kind === 'task') return enterTask(walk, node);
  if (node.kind === 'split') return openBlock(walk, node, 'split', undefined);
  if (node.kind === 'foreach') return enterForeach(walk, node);
  if (node.kind === 'switch') return enterSwitch(walk, node);
  return node.kind === 'approve' ? enterApprove(walk, node) : enterWait(walk, node);
}

function enterTask(walk: Walk, node: TaskNode): Landing {
  const context =
    node.baggage === undefined ? undefined : extendBaggage(node.baggage, toScope(walk));
  if (context !== undefined) walk.context = context;
  const input = node.with === undefined ? walk.own : { ...walk.own, ...renderAll(walk, node.with) };
  const text = input === walk.own ? formatOwnPayload(walk) : JSON.stringify(input);
  const bytes = Buffer.byteLength(text);
  if (bytes > limits.payloadBytesMax) {
    throw new PipelineFault(
      `its payload has ${bytes} bytes; ${limits.payloadBytesMax} are allowed`,
    );
  }
  const landing = { kind: 'task', ...positionOf(walk), input, context } as const;
  if (node.dependency === undefined) return landing;
  return { ...landing, dependency: dependencyOf(walk, node.dependency) };
}

function dependencyOf(walk: Walk, template: Template): string {
  const key = withPartName('dependency', () => renderText(walk, template));
  const fault = findDependencyFault(key);
  if (fault === undefined) return key;
  throw new PipelineFault(`dependency ${fault}, not ${excerpt(key)}`);
}

function renderAll(walk: Walk, templates: NonNullable<TaskNode['with']>): JsonObject {
  const scope = toScope(walk);
  return Object.fromEntries(
    Object.entries(templates).map(([key, template]) => [
      key,
      withPartName(`with.${key}`, () => renderTemplate(template, scope)),
    ]),
  );
}

/** Halts the branch if the block has too many branches, before any of them starts. */
function openBlock(
  walk: Walk,
  node: SplitNode | ForeachNode | TaskNode,
  block: BlockKind,
  events: readonly Json[] | undefined,
): Landing {
  const width = countBranches(walk.graph, { ...walk, node: node.id }, block, events);
  const widthMax = node.kind === 'foreach' ? node.maxFanout : walk.graph.maxFanout;
  if (width > widthMax) {
    throw new PipelineFault(
      `fans out to ${width} branches; ${widthMax} are allowed`,
      'fanout_limit',
    );
  }
  const concurrency = node.kind === 'foreach' ? node.concurrency : undefined;
  return { kind: 'open', ...positionOf(walk), block, width, concurrency, events };
}

function enterForeach(walk: Walk, node: ForeachNode): Landing | NodeId | null {
  const landing = openBlock(walk, node, 'foreach', undefined);
  if (landing.kind !== 'open' || landing.width > 0) return landing;
  walk.own = { ...walk.own, [payloadKeyOf(node.id)]: [] };
  recordStep(walk, 'succeeded', { output: formatOwnPayload(walk), note: 'the list is empty' });
  return node.next;
}

function enterSwitch(walk: Walk, node: SwitchNode): NodeId | null {
  const { label, first } = chooseArm(walk, node);
  recordStep(walk, 'succeeded', { output: formatOwnPayload(walk), note: label });
  return first ?? node.next;
}

function chooseArm(walk: Walk, node: SwitchNode): { label: string; first: NodeId | null } {
  const scope = toScope(walk);
  const value = node.value === undefined ? undefined : renderTemplate(node.value, scope);
  for (const { label, when, equals, first } of node.cases) {
    const holds =
      when === undefined
        ? value !== undefined && equals !== undefined && matchesCase(value, equals)
        : withPartName(`case ${label}`, () => evaluateCondition(when, scope));
    if (holds) return { label: `case ${label}`, first };
  }
  if (node.otherwise !== undefined) {
    // A list of steps with a condition is a switch without cases.
    const label = node.cases.length === 0 ? 'its condition holds' : 'otherwise';
    return { label, ...node.otherwise };
  }
  const what = value === undefined ? 'no case holds' : `no case matches ${excerpt(value)}`;
  throw new PipelineFault(`${what}, and there is no otherwise`, 'unmatched_condition');
}

function enterApprove(walk: Walk, node: ApproveNode): Landing {
  const message = node.message === undefined ? null : renderText(walk, node.message);
  recordStep(walk, 'waiting', { note: message });
  return pause(walk, { due: inMs(node.timeoutMs), signal: undefined, message });
}

function enterWait(walk: Walk, node: WaitNode): Landing {
  const { delayMs, until, signal } = node;
  const due =
    until === undefined ? inMs(delayMs ?? node.timeoutMs) : { at: parseMoment(walk, until) };
  recordStep(walk, 'waiting', { note: signal === undefined ? null : `for ${signal.type}` });
  return pause(walk, { due, signal: signal?.type, message: null });
}

type Pause = Extract<Landing, { kind: 'pause' }>;

function pause(walk: Walk, rest: Pick<Pause, 'due' | 'signal' | 'message'>): Pause {
  return { kind: 'pause', ...positionOf(walk), ...rest };
}

function inMs(ms: number | undefined): Pause['due'] {
  return ms === undefined ? undefined : { inMs: ms };
}

function parseMoment(walk: Walk, until: Template): string {
  const text = renderTemplate(until, toScope(walk));
  const ms = typeof text === 'string' ? Date.parse(text) : Number.NaN;
  if (ms >= 0 && ms <= LAST_MOMENT_MS) return toTimestamp(ms);
  throw new PipelineFault(`until is not a time: ${excerpt(text)}`);
}

function renderText(walk: Walk, template: Template): string {
  const value = renderTemplate(template, toScope(walk));
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function excerpt(value: Json): string {
  return JSON.stringify(value).slice(0, EXCERPT_CHARS);
}

/** Adds the part of the step to the message of a fault. */
function withPartName<T>(part: string, work: () => T): T {
  try {
    return work();
  } catch (thrown) {
    if (!(thrown instanceof PipelineFault)) throw thrown;
    throw new PipelineFault(`${part}: ${thrown.message}`, thrown.reason);
  }
}
