import { limits } from '../../base/limits.ts';
import type { Json } from '../../base/json.ts';
import { parseJson } from '../../base/parse-json.ts';
import { toPayload } from './begin-block.ts';
import { open, walkTo } from './enter.ts';
import { PipelineFault } from '../language/fault.ts';
import {
  keyOf,
  type ApproveNode,
  type Graph,
  type NodeId,
  type TaskNode,
} from '../language/graph.ts';
import type { Arrival, BlockKind, Move, Standing } from './transition.ts';
import { noteOfSignal } from './wait.ts';
import { beginWalk, halt, haltWith, isOver, ownText, stand, take, type Walk } from './walk.ts';

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
