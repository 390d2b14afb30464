import { toTimestamp } from '../../base/clock.ts';
import type { Json, JsonObject } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { accrete } from '../language/baggage.ts';
import { widthOf } from './begin-block.ts';
import { evaluate, isCase } from '../language/condition.ts';
import { dependencyFault } from '../language/dependency.ts';
import { PipelineFault } from '../language/fault.ts';
import { keyOf } from '../language/graph.ts';
import type {
  ApproveNode,
  ForeachNode,
  NodeId,
  SplitNode,
  SwitchNode,
  TaskNode,
  WaitNode,
} from '../language/graph.ts';
import type { BlockKind, Move, Landing } from './transition.ts';
import { render, type Template } from '../language/template.ts';
import { nodeAt, ownText, placeOf, scopeOf, stand, take, type Walk } from './walk.ts';

/** A time after this would not sort with the others as text. */
const LAST_MOMENT_MS = Date.UTC(9999, 11, 31);

const EXCERPT_CHARS = 200;

/** Goes from node to node until the branch has to stand still, or is over. */
export function walkTo(walk: Walk, to: NodeId | null): Move {
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
export function open(
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
