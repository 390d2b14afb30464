import { limits } from '../../base/limits.ts';
import type { Json, JsonObject } from '../../base/json.ts';
import { parseJson } from '../../base/parse-json.ts';
import {
  toPayload,
  widthOf,
  noteOfSignal,
  beginWalk,
  halt,
  haltWith,
  isOver,
  ownText,
  stand,
  take,
  nodeAt,
  placeOf,
  scopeOf,
  type Walk,
} from './walk.ts';
import { PipelineFault } from './run.ts';
import {
  keyOf,
  type ApproveNode,
  type Graph,
  type NodeId,
  type TaskNode,
  type ForeachNode,
  type SplitNode,
  type SwitchNode,
  type WaitNode,
} from '../language/graph.ts';
import type { Arrival, BlockKind, Move, Standing, Landing } from './transition.ts';
import { toTimestamp } from '../../base/clock.ts';
import { accrete } from '../language/baggage.ts';
import { evaluate, isCase } from '../language/condition.ts';
import { dependencyFault } from '../language/entry-fields.ts';
import { render, type Template } from '../language/template.ts';

/**
 * What follows for a branch from what happened to it: the steps that it takes, and where it stands
 * still again. Whoever calls it twice with the same gets the same.
 */
export function advance(graph: Graph, standing: Standing, arrival: Arrival): Move {
  const walk = beginWalk(graph, standing);
  try {
    return arrive(walk, arrival);
  } catch (thrown) {
    if (!(thrown instanceof PipelineFault)) throw thrown;
    return halt(walk, thrown);
  }
}

function arrive(walk: Walk, arrival: Arrival): Move {
  if (arrival.kind === 'start') return walkTo(walk, walk.node.id);
  if (arrival.kind === 'done') return arriveDone(walk, arrival);
  if (arrival.kind === 'failed') return arriveFailed(walk, arrival);
  if (arrival.kind === 'joined') return arriveJoined(walk, arrival.block, arrival.outputs);
  if (arrival.kind === 'due') return arriveDue(walk, arrival.at);
  if (arrival.kind === 'decided') return arriveDecided(walk, arrival);
  if (walk.node.kind !== 'wait') throw strange(walk, arrival.kind);
  return proceed(walk, arrival.data, noteOfSignal(arrival.signalId));
}

function arriveDone(walk: Walk, { events, result }: Extract<Arrival, { kind: 'done' }>): Move {
  const { node } = walk;
  if (node.kind !== 'task') throw strange(walk, 'done');
  const [event, ...more] = events;
  if (more.length > 0) return arriveSeveral(walk, node, events);
  if (event === undefined) walk.own = { ...walk.own, result };
  else {
    walk.own = toPayload(event);
    walk.base = {};
  }
  take(walk, 'succeeded', { output: ownText(walk) });
  return walkTo(walk, node.next);
}

/** The rest of the list runs once for each event; without a rest they are the outputs themselves. */
function arriveSeveral(walk: Walk, node: TaskNode, events: readonly Json[]): Move {
  const outputs = events.map((event) => JSON.stringify(toPayload(event)));
  const note = `${events.length} events`;
  if (node.next === node.end) {
    return joinEvents(walk, outputs, { kind: 'task', note });
  }
  const landing = open(walk, node, 'events', events);
  take(walk, 'succeeded', { output: listText(outputs), note });
  return stand(walk, landing);
}

function arriveFailed(
  walk: Walk,
  { reason, error, block }: Extract<Arrival, { kind: 'failed' }>,
): Move {
  const { node } = walk;
  if (block !== undefined) return haltWith(walk, reason, error);
  // What could not be moved on is no failure of the step.
  const isOwn = !reason.startsWith('advancement_');
  if (node.kind !== 'task' || node.onError === 'halt' || !isOwn) {
    throw new PipelineFault(error, reason);
  }
  walk.own = { ...walk.own, error: { reason, message: error } };
  take(walk, 'failed', { output: ownText(walk), error, note: 'on_error: continue' });
  return walkTo(walk, node.next);
}

function arriveJoined(walk: Walk, block: BlockKind, outputs: readonly string[]): Move {
  const { node } = walk;
  if (block === 'events') return joinEvents(walk, outputs, { kind: 'events', note: null });
  if (node.kind === 'foreach') return join(walk, keyOf(node.id), listText(outputs), node.next);
  if (node.kind !== 'split') throw strange(walk, 'joined');
  const arms = node.arms.map(
    ({ label }, index) => `${JSON.stringify(label)}:${outputs[index] ?? 'null'}`,
  );
  return join(walk, keyOf(node.id), `{${arms.join(',')}}`, node.next);
}

type Taken = NonNullable<Parameters<typeof take>[2]>;

function joinEvents(walk: Walk, outputs: readonly string[], taken: Taken): Move {
  const { end, list } = walk.node;
  const text = listText(outputs);
  if (!isOver(walk, end)) return join(walk, keyOf(list), text, end, taken);
  checkSize(text, limits.runOutputBytesMax);
  take(walk, 'succeeded', { ...taken, output: text });
  return stand(walk, { kind: 'end', output: text });
}

/** Puts what the branches of a block gave under its key, as text for as long as nobody reads it. */
function join(walk: Walk, key: string, text: string, next: NodeId | null, taken: Taken = {}): Move {
  if (isOver(walk, next)) {
    checkSize(text, limits.runOutputBytesMax);
    const output = withText(walk, key, text);
    take(walk, 'succeeded', { ...taken, output });
    return stand(walk, { kind: 'end', output });
  }
  checkSize(text, limits.payloadBytesMax);
  walk.own = { ...walk.own, [key]: parseJson(text) as Json };
  take(walk, 'succeeded', { ...taken, output: ownText(walk) });
  return walkTo(walk, next);
}

function arriveDue(walk: Walk, at: string): Move {
  const { node } = walk;
  if (node.kind === 'approve') {
    if (node.onTimeout === 'halt') {
      throw new PipelineFault('nobody decided in time', 'timeout');
    }
    const approved = node.onTimeout === 'approve';
    return decide(walk, node, { approved, by: 'deadline', at, why: null });
  }
  if (node.kind !== 'wait') throw strange(walk, 'due');
  if (node.signal === undefined) {
    take(walk, 'succeeded', { output: ownText(walk) });
    return walkTo(walk, node.next);
  }
  const message = `no signal ${node.signal.type} came in time`;
  if (node.onError === 'halt') throw new PipelineFault(message, 'timeout');
  walk.own = { ...walk.own, [keyOf(node.id)]: null };
  take(walk, 'failed', { output: ownText(walk), error: message, note: 'on_error: continue' });
  return walkTo(walk, node.next);
}

function arriveDecided(
  walk: Walk,
  { approved, by, at, why }: Extract<Arrival, { kind: 'decided' }>,
): Move {
  if (walk.node.kind !== 'approve') throw strange(walk, 'decided');
  return decide(walk, walk.node, { approved, by, at, why });
}

function decide(
  walk: Walk,
  node: ApproveNode,
  decision: { approved: boolean; by: string; at: string; why: string | null },
): Move {
  const { approved, by, why } = decision;
  const note = `${approved ? 'approved' : 'rejected'} by ${by}${why === null ? '' : `: ${why}`}`;
  if (!approved && node.onError === 'halt') throw new PipelineFault(note, 'rejected');
  return proceed(walk, decision, note);
}

/** Goes on with what was waited for. */
function proceed(walk: Walk, value: Json, note: string): Move {
  walk.own = { ...walk.own, [keyOf(walk.node.id)]: value };
  take(walk, 'succeeded', { output: ownText(walk), note });
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

/** The ledger and the graph contradict each other: a defect, and not one of the pipeline's. */
function strange(walk: Walk, kind: Arrival['kind']): Error {
  return new Error(`a branch at the ${walk.node.kind} ${walk.node.id} cannot be ${kind}`);
}

/** A time after this would not sort with the others as text. */
const LAST_MOMENT_MS = Date.UTC(9999, 11, 31);

const EXCERPT_CHARS = 200;

/** Goes from node to node until the branch has to stand still, or is over. */
function walkTo(walk: Walk, to: NodeId | null): Move {
  let next = to;
  while (next !== null && next !== walk.stop) {
    const passed = enter(walk, next);
    if (typeof passed === 'object' && passed !== null) return stand(walk, passed);
    next = passed;
  }
  return stand(walk, { kind: 'end', output: ownText(walk) });
}

/** What a branch does at a node: it stands still there, or passes on to the next. */
function enter(walk: Walk, id: NodeId): Landing | NodeId | null {
  const node = nodeAt(walk.graph, id);
  walk.node = node;
  const { when } = node;
  if (when !== undefined && !naming('if', () => evaluate(when, scopeOf(walk)))) {
    take(walk, 'skipped', { note: 'its condition does not hold' });
    return node.next;
  }
  if (node.kind === 'task') return enterTask(walk, node);
  if (node.kind === 'split') return open(walk, node, 'split', undefined);
  if (node.kind === 'foreach') return enterForeach(walk, node);
  if (node.kind === 'switch') return enterSwitch(walk, node);
  return node.kind === 'approve' ? enterApprove(walk, node) : enterWait(walk, node);
}

function enterTask(walk: Walk, node: TaskNode): Landing {
  const context = node.baggage === undefined ? undefined : accrete(node.baggage, scopeOf(walk));
  if (context !== undefined) walk.context = context;
  const input = node.with === undefined ? walk.own : { ...walk.own, ...renderAll(walk, node.with) };
  const text = input === walk.own ? ownText(walk) : JSON.stringify(input);
  const bytes = Buffer.byteLength(text);
  if (bytes > limits.payloadBytesMax) {
    throw new PipelineFault(
      `its payload has ${bytes} bytes; ${limits.payloadBytesMax} are allowed`,
    );
  }
  const landing = { kind: 'task', ...placeOf(walk), input, context } as const;
  if (node.dependency === undefined) return landing;
  return { ...landing, dependency: dependencyOf(walk, node.dependency) };
}

function dependencyOf(walk: Walk, template: Template): string {
  const key = naming('dependency', () => renderText(walk, template));
  const fault = dependencyFault(key);
  if (fault === undefined) return key;
  throw new PipelineFault(`dependency ${fault}, not ${excerpt(key)}`);
}

function renderAll(walk: Walk, templates: NonNullable<TaskNode['with']>): JsonObject {
  const scope = scopeOf(walk);
  return Object.fromEntries(
    Object.entries(templates).map(([key, template]) => [
      key,
      naming(`with.${key}`, () => render(template, scope)),
    ]),
  );
}

/** A block is as wide as it may be, or the branch halts before any of it is begun. */
function open(
  walk: Walk,
  node: SplitNode | ForeachNode | TaskNode,
  block: BlockKind,
  events: readonly Json[] | undefined,
): Landing {
  const width = widthOf(walk.graph, { ...walk, node: node.id }, block, events);
  const widthMax = node.kind === 'foreach' ? node.maxFanout : walk.graph.maxFanout;
  if (width > widthMax) {
    throw new PipelineFault(
      `fans out to ${width} branches; ${widthMax} are allowed`,
      'fanout_limit',
    );
  }
  const concurrency = node.kind === 'foreach' ? node.concurrency : undefined;
  return { kind: 'open', ...placeOf(walk), block, width, concurrency, events };
}

function enterForeach(walk: Walk, node: ForeachNode): Landing | NodeId | null {
  const landing = open(walk, node, 'foreach', undefined);
  if (landing.kind !== 'open' || landing.width > 0) return landing;
  walk.own = { ...walk.own, [keyOf(node.id)]: [] };
  take(walk, 'succeeded', { output: ownText(walk), note: 'the list is empty' });
  return node.next;
}

function enterSwitch(walk: Walk, node: SwitchNode): NodeId | null {
  const { label, first } = chooseArm(walk, node);
  take(walk, 'succeeded', { output: ownText(walk), note: label });
  return first ?? node.next;
}

function chooseArm(walk: Walk, node: SwitchNode): { label: string; first: NodeId | null } {
  const scope = scopeOf(walk);
  const value = node.value === undefined ? undefined : render(node.value, scope);
  for (const { label, when, equals, first } of node.cases) {
    const holds =
      when === undefined
        ? value !== undefined && equals !== undefined && isCase(value, equals)
        : naming(`case ${label}`, () => evaluate(when, scope));
    if (holds) return { label: `case ${label}`, first };
  }
  if (node.otherwise !== undefined) {
    // A list of steps with a condition is a choice without cases.
    const label = node.cases.length === 0 ? 'its condition holds' : 'otherwise';
    return { label, ...node.otherwise };
  }
  const what = value === undefined ? 'no case holds' : `no case is ${excerpt(value)}`;
  throw new PipelineFault(`${what}, and there is no otherwise`, 'unmatched_condition');
}

function enterApprove(walk: Walk, node: ApproveNode): Landing {
  const message = node.message === undefined ? null : renderText(walk, node.message);
  take(walk, 'waiting', { note: message });
  return pause(walk, { due: inMs(node.timeoutMs), signal: undefined, message });
}

function enterWait(walk: Walk, node: WaitNode): Landing {
  const { delayMs, until, signal } = node;
  const due = until === undefined ? inMs(delayMs ?? node.timeoutMs) : { at: momentOf(walk, until) };
  take(walk, 'waiting', { note: signal === undefined ? null : `for ${signal.type}` });
  return pause(walk, { due, signal: signal?.type, message: null });
}

type Pause = Extract<Landing, { kind: 'pause' }>;

function pause(walk: Walk, rest: Pick<Pause, 'due' | 'signal' | 'message'>): Pause {
  return { kind: 'pause', ...placeOf(walk), ...rest };
}

function inMs(ms: number | undefined): Pause['due'] {
  return ms === undefined ? undefined : { inMs: ms };
}

function momentOf(walk: Walk, until: Template): string {
  const text = render(until, scopeOf(walk));
  const ms = typeof text === 'string' ? Date.parse(text) : Number.NaN;
  if (ms >= 0 && ms <= LAST_MOMENT_MS) return toTimestamp(ms);
  throw new PipelineFault(`until is not a time: ${excerpt(text)}`);
}

function renderText(walk: Walk, template: Template): string {
  const value = render(template, scopeOf(walk));
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function excerpt(value: Json): string {
  return JSON.stringify(value).slice(0, EXCERPT_CHARS);
}

/** Says in which part of the step something could not be worked out. */
function naming<T>(part: string, work: () => T): T {
  try {
    return work();
  } catch (thrown) {
    if (!(thrown instanceof PipelineFault)) throw thrown;
    throw new PipelineFault(`${part}: ${thrown.message}`, thrown.reason);
  }
}
